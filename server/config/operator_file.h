// The reading of a file that an operator writes, while he may be writing it, and whatever he has put in its place.

#ifndef SERVER_CONFIG_OPERATOR_FILE_H_
#define SERVER_CONFIG_OPERATOR_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// The bytes of a regular file, or of one that a link leads to. Takes no more memory than `most_bytes`, and waits for nobody: a
// pipe could be waited for without end.
// NOT_FOUND says why there are none: the system's word, it is no regular file, or it has more than `most_bytes`.
absl::StatusOr<std::string> ReadOperatorFile(const std::string& path, size_t most_bytes);

// The same of the file that a flag names; an empty path: an empty text. INVALID_ARGUMENT names the flag and says why there are none.
absl::StatusOr<std::string> ReadFlagsFile(absl::string_view flag, const std::string& path, size_t most_bytes);

}  // namespace gluond::server

#endif  // SERVER_CONFIG_OPERATOR_FILE_H_
