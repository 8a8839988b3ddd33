// The files that say who callers are: lines of words, between which are spaces or tabs. Empty lines, and those that
// begin with '#', are left out.

#ifndef SERVER_IDENTITY_LINES_H_
#define SERVER_IDENTITY_LINES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// The text of such a file, of `most_mib` MiB at most. NOT_FOUND names the flag and the path.
absl::StatusOr<std::string> ReadLines(absl::string_view flag, const std::string& path, size_t most_mib = 16);

// Calls `take` with the words of each line, of which there is one at least. Ends with the first error of `take`, with
// the flag and the number of the line before it.
absl::Status ForEachLine(absl::string_view flag, absl::string_view text,
                         absl::FunctionRef<absl::Status(const std::vector<std::string>& words)> take);

// Whether an identity or a tenant may be called so. INVALID_ARGUMENT tells how. A name is the first part of names in
// logs, of clients' numbers and of files.
absl::Status CheckIdentityName(absl::string_view name);

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_LINES_H_
