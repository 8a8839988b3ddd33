// Files as one piece of bytes.

#ifndef GLUOND_CLIENT_CPP_GLUON_WHOLE_FILE_H_
#define GLUOND_CLIENT_CPP_GLUON_WHOLE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::client {

// The bytes go to a file aside, which takes the old one's place at the end. PERMISSION_DENIED: they cannot be written; says why.
absl::Status WriteWhole(const std::string& path, absl::string_view bytes);
// NOT_FOUND: it cannot be read; says why.
absl::StatusOr<std::string> ReadWhole(const std::string& path);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_GLUON_WHOLE_FILE_H_
