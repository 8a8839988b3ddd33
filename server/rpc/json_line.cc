#include "server/rpc/json_line.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace gluond::server {
std::string JsonQuoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (IsPlainInJson(c)) {
      out += c;
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else {
      absl::StrAppend(&out, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
    }
  }
  return out += '"';
}

absl::string_view Cut(absl::string_view text, size_t most) {
  size_t size = std::min(text.size(), most);
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

std::string JsonExcerpt(absl::string_view text) {
  constexpr size_t kLongest = 2000;
  return JsonQuoted(absl::StrCat(Cut(text, kLongest), text.size() > kLongest ? "..." : ""));
}

std::string JsonIfThere(absl::string_view name, absl::string_view value) {
  return value.empty() ? "" : absl::StrCat(",", JsonQuoted(name), ":", JsonQuoted(value));
}

absl::string_view JsonTime() {
  thread_local int64_t second = -1;
  thread_local std::string text;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  if (milliseconds / 1000 != second) {
    second = milliseconds / 1000;
    text = absl::FormatTime("{\"time\":\"%Y-%m-%dT%H:%M:%S.000Z\"", absl::FromUnixSeconds(second), absl::UTCTimeZone());
  }
  char* digit = &text[text.size() - 2];  // The 'Z', which stands behind the milliseconds.
  for (int64_t rest = milliseconds % 1000, i = 0; i < 3; ++i, rest /= 10) *--digit = static_cast<char>('0' + rest % 10);
  return text;
}

std::string BeginJsonLine(absl::string_view event, LogLevel level) {
  return absl::StrCat(JsonTime(), ",\"event\":", JsonQuoted(event), ",\"level\":", JsonQuoted(NameOf(level)));
}

}  // namespace gluond::server
