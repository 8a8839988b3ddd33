#include "server/rpc/access_log.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/json_line.h"

namespace gluond::server {
namespace {

// A client's text is cut off behind so many bytes.
constexpr size_t kMostText = 128;

// A member with a text, unless that is empty.
void AddIfThere(absl::string_view name, absl::string_view text, std::string* line) {
  if (text.empty()) return;
  const absl::string_view cut = Cut(text, kMostText);
  const bool is_plain = absl::c_all_of(cut, IsPlainInJson);
  is_plain ? absl::StrAppend(line, name, "\"", cut, "\"") : absl::StrAppend(line, name, JsonQuoted(cut));
}

// A number of JSON with six digits behind its point.
void AddSeconds(absl::string_view name, std::chrono::nanoseconds time, std::string* line) {
  constexpr int64_t kMicroseconds = 1'000'000;
  const int64_t total = time.count() / 1000;
  absl::StrAppend(line, name, total / kMicroseconds, ".", absl::Dec(total % kMicroseconds, absl::kZeroPad6));
}

}  // namespace

bool AccessLog::Wants(LogLevel level) {
  if (sink_ == nullptr || !levels_.On(level)) return false;
  if (level != LogLevel::kInfo || every_ == 1) return true;
  return went_well_.fetch_add(1, std::memory_order_relaxed) % every_ == 0;
}

void AccessLog::Ended(const EndedCall& call) const {
  thread_local std::string line;  // It keeps its bytes from line to line.
  line.clear();
  absl::StrAppend(&line, JsonTime(), ",\"event\":\"call\",\"level\":\"", NameOf(call.level), "\",\"method\":\"", call.method,
                  "\",\"code\":\"", absl::StatusCodeToString(call.code), "\"");
  AddIfThere(",\"caller\":", call.caller, &line);
  AddIfThere(",\"peer\":", call.peer, &line);
  AddIfThere(",\"target\":", call.target, &line);
  AddSeconds(",\"seconds\":", call.time, &line);
  if (call.phases.compute.count() > 0) {
    AddSeconds(",\"queue_seconds\":", call.phases.queue, &line);
    AddSeconds(",\"compute_seconds\":", call.phases.compute, &line);
    AddSeconds(",\"callback_seconds\":", call.phases.callback, &line);
  }
  absl::StrAppend(&line, ",\"bytes_in\":", call.bytes_in, ",\"bytes_out\":", call.bytes_out);
  absl::StrAppend(&line, ",\"messages_in\":", call.messages_in, ",\"messages_out\":", call.messages_out);
  AddIfThere(",\"request_id\":", call.request_id, &line);
  absl::StrAppend(&line, ",\"trace_id\":\"", call.trace.trace(), "\",\"span_id\":\"", call.trace.span());
  if (!call.trace.parent().empty()) absl::StrAppend(&line, "\",\"parent_id\":\"", call.trace.parent());
  line += "\"}\n";
  sink_(line);
}

}  // namespace gluond::server
