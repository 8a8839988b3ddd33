#include "server/log.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gluond::server {
namespace {

std::string Quoted(absl::string_view text) {
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

}  // namespace

absl::string_view CodeName(absl::StatusCode code) {
  static constexpr const char* kNames[] = {
      "OK",          "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED", "NOT_FOUND",
      "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
      "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",          "UNAVAILABLE",        "DATA_LOSS",         "UNAUTHENTICATED"};
  const auto i = static_cast<size_t>(code);
  return i < std::size(kNames) ? kNames[i] : "UNKNOWN";
}

std::string ToJsonLine(const FailedRequest& request) {
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  return absl::StrCat("{\"time\":", Quoted(time), ",\"event\":\"request_failed\",\"method\":", Quoted(request.method),
                      ",\"code\":", Quoted(CodeName(request.status.code())),
                      ",\"message\":", Quoted(request.status.message()), ",\"peer\":", Quoted(request.peer),
                      request.client.empty() ? "" : absl::StrCat(",\"client\":", Quoted(request.client)),
                      ",\"bytes\":", request.bytes, ",\"ms\":", absl::StrFormat("%.3f", request.milliseconds), "}\n");
}

void LogToStderr(absl::string_view line) {
  // One write, so that lines of several threads do not mix.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace gluond::server
