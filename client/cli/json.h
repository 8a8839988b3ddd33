// PrintJson: answers of the server for programs, each a line with the fields that docs/wire.md has.

#ifndef GLUOND_CLIENT_CLI_JSON_H_
#define GLUOND_CLIENT_CLI_JSON_H_

#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "client/cli/options.h"
#include "google/protobuf/util/json_util.h"

namespace gluond::cli {

// The option --json of a command that prints such answers.
inline void AddJson(Options* options, bool* json) {
  options->Add("json", json, "Prints the server's answer as JSON, a line for each, with the fields of docs/wire.md.");
}

template <class Messages>
absl::Status PrintJson(const Messages& messages) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = options.preserve_proto_field_names = true;
  for (const auto& message : messages) {
    std::string line;
    if (!google::protobuf::util::MessageToJsonString(message, &line, options).ok()) {
      return absl::InternalError("the server's answer has no form in JSON");
    }
    std::cout << line << "\n";
  }
  return absl::OkStatus();
}

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_JSON_H_
