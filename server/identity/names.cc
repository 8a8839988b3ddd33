#include "server/identity/names.h"

#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestTenantName = 64;

bool IsPlain(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-_.", c); }

std::string Encode(absl::string_view text, bool (*is_kept)(char)) {
  std::string encoded;
  for (const char c : text) {
    is_kept(c) ? encoded.push_back(c) : absl::StrAppend(&encoded, "%", absl::AsciiStrToUpper(absl::BytesToHexString({&c, 1})));
  }
  return encoded;
}

// Whether a text in UTF-8 has none: they are ASCII's, and U+0080 to U+009F.
bool HasNoControlCharacters(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_c1 = text[i] == '\xc2' && static_cast<uint8_t>(text[i + 1]) < 0xa0;
    if (is_c1 || absl::ascii_iscntrl(static_cast<unsigned char>(text[i]))) return false;
  }
  return true;
}

absl::Status CheckName(absl::string_view name) {
  const bool has_size = !name.empty() && name.size() <= kLongestName;
  if (has_size && IsUtf8(name) && HasNoControlCharacters(name)) return absl::OkStatus();
  return Invalid("a caller's name has to be 1 to ", kLongestName, " bytes of UTF-8 without control characters");
}

absl::StatusOr<std::string> Joined(absl::string_view said, absl::StatusOr<std::string> (*decode)(absl::string_view)) {
  absl::string_view tenant = TenantPrefix(said);
  if (!CheckTenantName(TenantOf(said)).ok()) tenant = "";
  ASSIGN_OR_RETURN(const std::string name, decode(said.substr(tenant.size())));
  RETURN_IF_ERROR(CheckName(name));
  return absl::StrCat(tenant, Encode(name, [](char c) { return IsPlain(c) || absl::StrContains("~:@", c); }));
}

}  // namespace

absl::Status CheckTenantName(absl::string_view name) {
  if (!name.empty() && name.size() <= kLongestTenantName && absl::c_all_of(name, IsPlain)) return absl::OkStatus();
  return Invalid("a tenant's name has to be 1 to ", kLongestTenantName, " letters, digits, '-', '_' or '.'");
}

absl::StatusOr<std::string> CallersName(absl::string_view said) {
  return Joined(said, [](absl::string_view name) -> absl::StatusOr<std::string> { return std::string(name); });
}

absl::StatusOr<std::string> CallersNameInFile(absl::string_view word) { return Joined(word, &DecodeWord); }

absl::StatusOr<std::string> DecodeWord(absl::string_view word) {
  std::string decoded;
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') {
      decoded.push_back(word[i]);
      continue;
    }
    const absl::string_view digits = word.substr(i + 1, 2);
    if (digits.size() != 2 || !absl::c_all_of(digits, absl::ascii_isxdigit)) {
      return Invalid("a '%' wants two hexadecimal digits after it; itself it is %25, and a blank %20");
    }
    decoded += absl::HexStringToBytes(digits);
    i += 2;
  }
  return decoded;
}

std::string ClientOf(absl::string_view caller, absl::string_view client_id) {
  // It is encoded only where it would end its segment: stores have such names.
  return absl::StrCat(caller, "/", Encode(client_id, [](char c) { return c != '/' && c != '%'; }));
}

}  // namespace gluond::server
