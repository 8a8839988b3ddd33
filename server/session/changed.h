// SessionChanged hears of commands of a session that change what others see of the server, or read it, and of those that are
// refused.

#ifndef SERVER_SESSION_CHANGED_H_
#define SERVER_SESSION_CHANGED_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/identity/access.h"

namespace gluond::server {

// Called when such a command has ended, with its name, "SaveAsModel", that of the thing, and OK or why it did nothing.
using SessionChanged =
    std::function<void(absl::string_view command, Audit audit, const std::string& target, absl::StatusCode code)>;

}  // namespace gluond::server

#endif  // SERVER_SESSION_CHANGED_H_
