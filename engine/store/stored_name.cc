#include "engine/store/stored_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"

namespace gluond {
namespace {

constexpr size_t kLongest = 128;

bool IsName(absl::string_view name, size_t longest) {
  bool good = !name.empty() && name.size() <= longest && absl::ascii_isalnum(name[0]);
  for (const char c : name) good = good && (absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-');
  return good;
}

bool IsStoredName(absl::string_view name) {
  const absl::string_view prefix = TenantPrefix(name);
  return IsName(name.substr(prefix.size()), kLongest) && (prefix.empty() || IsName(TenantOf(name), kLongestTenant));
}

absl::Status NotAllowed(absl::string_view kind, absl::string_view name) {
  return InField(kind,
                 absl::InvalidArgumentError(absl::StrCat("the ", kind, " name '", Excerpt(name), "' is not allowed; want 1 to ",
                                                         kLongest, " of A-Z a-z 0-9 . _ -, the first a letter or digit")));
}

}  // namespace

absl::Status CheckName(absl::string_view kind, absl::string_view name) {
  return IsName(name, kLongest) ? absl::OkStatus() : NotAllowed(kind, name);
}

absl::Status CheckStoredName(absl::string_view kind, absl::string_view name) {
  return IsStoredName(name) ? absl::OkStatus() : NotAllowed(kind, name);
}

std::string FileOf(absl::string_view name) {
  std::string file(name);
  std::replace(file.begin(), file.end(), '/', '+');
  return file;
}

std::string AsideOf(absl::string_view name, int64_t number) { return absl::StrCat(".", FileOf(name), ".", number); }

std::optional<std::pair<std::string, int64_t>> NameOfAside(absl::string_view file) {
  const size_t dot = file.rfind('.');
  int64_t number = 0;
  if (dot == 0 || dot == absl::string_view::npos || !absl::SimpleAtoi(file.substr(dot + 1), &number)) return std::nullopt;
  const std::optional<std::string> name = NameOfFile(file.substr(1, dot - 1));
  if (!name.has_value() || number < 1 || AsideOf(*name, number) != file) return std::nullopt;
  return std::pair(*name, number);
}

std::optional<std::string> NameOfFile(absl::string_view file) {
  std::string name(file);
  if (const size_t plus = name.find('+'); plus != std::string::npos) name[plus] = '/';
  if (!IsStoredName(name) || FileOf(name) != file) return std::nullopt;
  return name;
}

}  // namespace gluond
