// The names that a store keeps, and the files that have them. The file of a tenant's `acme/digits` is "acme+digits": no
// name has a '+', and no path comes of one.

#ifndef ENGINE_STORE_STORED_NAME_H_
#define ENGINE_STORE_STORED_NAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gluond {

inline constexpr size_t kLongestTenant = 32;

// OK for [A-Za-z0-9][A-Za-z0-9._-]{0,127}, the names of models, datasets and checkpoints. INVALID_ARGUMENT tells this.
absl::Status CheckName(absl::string_view kind, absl::string_view name);
// OK for the same with a tenant's name before it: [A-Za-z0-9][A-Za-z0-9._-]{0,31}/. INVALID_ARGUMENT: as CheckName.
absl::Status CheckStoredName(absl::string_view kind, absl::string_view name);

// The file of a name that CheckStoredName takes, and the name of such a file. Nothing: it has no such name.
std::string FileOf(absl::string_view name);
std::optional<std::string> NameOfFile(absl::string_view file);

// The file of what was set aside under a name, ".acme+digits.1", and the name and number of such a file.
std::string AsideOf(absl::string_view name, int64_t number);
std::optional<std::pair<std::string, int64_t>> NameOfAside(absl::string_view file);

}  // namespace gluond

#endif  // ENGINE_STORE_STORED_NAME_H_
