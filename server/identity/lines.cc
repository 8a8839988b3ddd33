#include "server/identity/lines.h"

#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestName = 64;

}  // namespace

absl::StatusOr<std::string> ReadLines(absl::string_view flag, const std::string& path, size_t most_mib) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.str().size() > most_mib << 20) {
    return absl::NotFoundError(absl::StrCat(flag, "=", path, " cannot be read, or has more than ", most_mib, " MiB"));
  }
  return text.str();
}

absl::Status ForEachLine(absl::string_view flag, absl::string_view text,
                         absl::FunctionRef<absl::Status(const std::vector<std::string>& words)> take) {
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    RETURN_IF_ERROR(Annotate(take(words), absl::StrCat(flag, ", line ", number)));
  }
  return absl::OkStatus();
}

absl::Status CheckIdentityName(absl::string_view name) {
  bool good = !name.empty() && name.size() <= kLongestName;
  for (const char c : name) good = good && (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.');
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the name has to be 1 to ", kLongestName, " letters, digits, '-', '_' or "
                                                 "'.'"));
}

}  // namespace gluond::server
