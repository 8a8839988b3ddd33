#include "server/identity/names.h"

#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
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

// The bytes that the character takes at the beginning of `text`; 0: there is none, or a control character.
size_t FirstCharacter(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const size_t size = byte(0) < 0x80 ? 1 : byte(0) < 0xc0 ? 0 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  if (size == 0 || size > text.size() || byte(0) > 0xf4) return 0;
  uint32_t point = size == 1 ? byte(0) : byte(0) & (0x7f >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // Fewer bytes would have done for less.
  const bool is_surrogate = point >= 0xd800 && point < 0xe000, is_control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  return point < kLeast[size] || point > 0x10ffff || is_surrogate || is_control ? 0 : size;
}

absl::Status CheckName(absl::string_view name) {
  bool is_good = !name.empty() && name.size() <= kLongestName;
  for (absl::string_view rest = name; is_good && !rest.empty();) {
    const size_t size = FirstCharacter(rest);
    is_good = size > 0;
    rest.remove_prefix(size);
  }
  if (is_good) return absl::OkStatus();
  return InvalidArgument("a caller's name has to be 1 to ", kLongestName, " bytes of UTF-8 without control characters");
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
  return InvalidArgument("a tenant's name has to be 1 to ", kLongestTenantName, " letters, digits, '-', '_' or '.'");
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
      return absl::InvalidArgumentError("a '%' wants two hexadecimal digits after it; itself it is %25, and a blank %20");
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
