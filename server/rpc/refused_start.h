// Why a server does not start: one line on stderr, in the form that whoever reads it has. On a terminal it is a sentence,
// "gluond-server: --max_models is -1; want ...", and elsewhere an event as all other lines there:
//
//   {"time":"2026-11-21T03:04:05.678Z","event":"start_refused","level":"error","message":"--max_models is -1; want ..."}

#ifndef SERVER_RPC_REFUSED_START_H_
#define SERVER_RPC_REFUSED_START_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

std::string LineOfRefusedStart(absl::string_view why);
void LogRefusedStart(absl::string_view why);

// Calls `parse`, and gives what it writes to std::cerr that form: Abseil writes there which flag is wrong, and ends the process
// then.
void WithRefusalsOfFlags(absl::FunctionRef<void()> parse);

}  // namespace gluond::server

#endif  // SERVER_RPC_REFUSED_START_H_
