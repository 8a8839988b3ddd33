// PrintJson: answers of the server for programs, each a line with the fields that docs/wire.md has.

#ifndef GLUOND_CLIENT_CLI_JSON_H_
#define GLUOND_CLIENT_CLI_JSON_H_

#include <iostream>
#include <string>

#include "client/cli/json_text.h"
#include "client/cli/options.h"
#include "gluond/fields.h"

namespace gluond::cli {

// The option --json of a command that prints such answers.
inline void AddJson(Options* options, bool* json) {
  options->Add("json", json, "Prints the server's answer as JSON, a line for each, with the fields of docs/wire.md.");
}

template <class Answers>
void PrintJson(const Answers& answers) {
  for (const auto& answer : answers) std::cout << JsonText(answer) << "\n";
}

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_JSON_H_
