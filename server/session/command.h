// Checks of a session's command before it is taken up.

#ifndef SERVER_SESSION_COMMAND_H_
#define SERVER_SESSION_COMMAND_H_

#include <cstdint>

#include "absl/status/status.h"
#include "gluond/v1/session.pb.h"

namespace gluond::server {

// INVALID_ARGUMENT: it names more things than one command may.
absl::Status CheckNames(const v1::Command& command);
// The error of a command without content. UNIMPLEMENTED, reason UNKNOWN_COMMAND: it has one that this server does not know;
// says what to do. INVALID_ARGUMENT: it is empty.
absl::Status NoContent(const v1::Command& command, uint64_t number);
// Whether its client waits for a Reply with its number.
bool IsAnswered(const v1::Command& command);
// Whether the audit log has lines of it.
bool IsAudited(const v1::Command& command);

}  // namespace gluond::server

#endif  // SERVER_SESSION_COMMAND_H_
