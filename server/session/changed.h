// A command of a session may touch things that others see. SessionChanged hears of commands that change or read such
// things, and of those that are refused. SessionMay says whether the caller may do what the command does.

#ifndef SERVER_SESSION_CHANGED_H_
#define SERVER_SESSION_CHANGED_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "server/identity/access.h"
#include "server/identity/owners.h"

namespace gluond::server {

// Called when such a command has ended, with its name, "SaveAsModel", that of the thing, and OK or why it did nothing.
using SessionChanged =
    std::function<void(absl::string_view command, Audit audit, const std::string& target, absl::StatusCode code)>;

// As Owners::May, of a command's own message (Command.SaveAsModel).
using SessionMay = std::function<absl::StatusOr<Owners::ClaimPtr>(const google::protobuf::Message& command)>;

}  // namespace gluond::server

#endif  // SERVER_SESSION_CHANGED_H_
