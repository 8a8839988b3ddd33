#include "server/identity/lines.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestName = 64;

}  // namespace

absl::StatusOr<std::string> WatchedFile::Read() const {
  std::error_code error;
  if (std::filesystem::is_directory(path_, error)) {
    return absl::NotFoundError(absl::StrCat(flag_, "=", path_, " cannot be read: it is a folder; want a file"));
  }
  std::ifstream file(path_, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.str().size() > most_mib_ << 20) {
    return absl::NotFoundError(absl::StrCat(flag_, "=", path_, " cannot be read, or has more than ", most_mib_, " MiB"));
  }
  return text.str();
}

absl::StatusOr<bool> WatchedFile::Look() {
  absl::StatusOr<std::string> text = Read();
  if (!text.ok() && text.status() == told_) return false;
  told_ = text.status();
  RETURN_IF_ERROR(told_);
  if (text_ == *text) return false;
  text_ = *std::move(text);
  return true;
}

absl::Status NoLinesAnyMore(absl::string_view flag) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": the file has no lines any more, want one at least"));
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
