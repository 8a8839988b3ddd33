#include "server/rpc/json_line.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gluond::server {

std::string JsonQuoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", byte);
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string JsonExcerpt(absl::string_view text) {
  constexpr size_t kLongest = 2000;
  if (text.size() <= kLongest) return JsonQuoted(text);
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // Characters stay whole.
  return JsonQuoted(absl::StrCat(text.substr(0, end), "..."));
}

std::string BeginJsonLine(absl::string_view event) {
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  return absl::StrCat("{\"time\":", JsonQuoted(time), ",\"event\":", JsonQuoted(event));
}

}  // namespace gluond::server
