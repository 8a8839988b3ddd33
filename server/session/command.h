// The errors of a session's command that is not taken up.

#ifndef SERVER_SESSION_COMMAND_H_
#define SERVER_SESSION_COMMAND_H_

#include <cstdint>

#include "absl/status/status.h"
#include "gluond/v1/session.pb.h"

namespace gluond::server {

// INVALID_ARGUMENT: a command names more things than `most`.
absl::Status CheckNames(int names, int most);
// The error of a command without content. UNIMPLEMENTED, reason UNKNOWN_COMMAND: it has one that this server does not know;
// says what to do. INVALID_ARGUMENT: it is empty.
absl::Status NoContent(const v1::Command& command, uint64_t number);

}  // namespace gluond::server

#endif  // SERVER_SESSION_COMMAND_H_
