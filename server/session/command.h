// Checks of a session's command before it is taken up.

#ifndef SERVER_SESSION_COMMAND_H_
#define SERVER_SESSION_COMMAND_H_

#include "absl/status/status.h"
#include "proto/session.pb.h"

namespace gluond::server {

// INVALID_ARGUMENT: it names more things than one command may.
absl::Status CheckNames(const v1::Command& command);
// Whether its client waits for a Reply with its number.
bool IsAnswered(const v1::Command& command);

}  // namespace gluond::server

#endif  // SERVER_SESSION_COMMAND_H_
