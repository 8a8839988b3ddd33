// Where a plugin of the server lies.

#ifndef SERVER_START_PLUGIN_FILE_H_
#define SERVER_START_PLUGIN_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// `path`, the value of `flag`, where it is not empty. Else `name` beside this program, in ../lib, or in `folder`, which is relative to
// the program. UNAVAILABLE: there is no such file.
absl::StatusOr<std::string> FindPlugin(const std::string& path, absl::string_view flag, absl::string_view name,
                                       absl::string_view folder);

}  // namespace gluond::server

#endif  // SERVER_START_PLUGIN_FILE_H_
