#include "server/rpc/access_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

#include "server/rpc/json_line.h"

namespace gluond::server {
namespace {

// A client's text is cut off behind so many bytes.
constexpr size_t kMostText = 128;

absl::string_view Cut(absl::string_view text) {
  size_t size = std::min(text.size(), kMostText);
  // Characters stay whole.
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

// A line that is made where it stands: with strings that grow, making it would take three times as long.
class Line {
 public:
  Line() {}

  void Add(absl::string_view text) {
    const size_t size = std::min(text.size(), static_cast<size_t>(buffer_.data() + buffer_.size() - at_));
    at_ = std::copy_n(text.data(), size, at_);
  }
  void AddNumber(int64_t number) { at_ = std::to_chars(at_, buffer_.data() + buffer_.size(), number).ptr; }
  // A number of JSON with six digits behind its point.
  void AddSeconds(std::chrono::nanoseconds time) {
    constexpr int64_t kMicroseconds = 1'000'000;
    const int64_t total = time.count() / 1000;
    AddNumber(total / kMicroseconds);
    std::array<char, 7> digits = {'.'};
    for (int64_t rest = total % kMicroseconds, i = 6; i > 0; --i, rest /= 10) {
      digits[static_cast<size_t>(i)] = static_cast<char>('0' + rest % 10);
    }
    Add({digits.data(), digits.size()});
  }
  // A member with a text, unless that is empty.
  void AddIfThere(absl::string_view name, absl::string_view text) {
    if (text.empty()) return;
    Add(name);
    const absl::string_view cut = Cut(text);
    if (!std::all_of(cut.begin(), cut.end(), IsPlainInJson)) return Add(JsonQuoted(cut));
    Add("\"");
    Add(cut);
    Add("\"");
  }
  absl::string_view text() const { return {buffer_.data(), static_cast<size_t>(at_ - buffer_.data())}; }

 private:
  // More than all members together, whose texts have kMostText bytes at most and 6 characters for each.
  std::array<char, 4096> buffer_;
  char* at_ = buffer_.data();
};

}  // namespace

bool AccessLog::Wants(LogLevel level) {
  if (sink_ == nullptr || !levels_.On(level)) return false;
  if (level != LogLevel::kInfo || every_ == 1) return true;
  return went_well_.fetch_add(1, std::memory_order_relaxed) % every_ == 0;
}

void AccessLog::Ended(const EndedCall& call) const {
  Line line;
  line.Add(JsonTime());
  line.Add(",\"event\":\"call\",\"level\":\"");
  line.Add(NameOf(call.level));
  line.Add("\",\"method\":\"");
  line.Add(call.method);
  line.Add("\",\"code\":\"");
  line.Add(CodeName(call.code));
  line.Add("\"");
  line.AddIfThere(",\"caller\":", call.caller);
  line.AddIfThere(",\"peer\":", call.peer);
  line.AddIfThere(",\"target\":", call.target);
  line.Add(",\"seconds\":");
  line.AddSeconds(call.time);
  if (call.phases.compute.count() > 0) {
    line.Add(",\"queue_seconds\":");
    line.AddSeconds(call.phases.queue);
    line.Add(",\"compute_seconds\":");
    line.AddSeconds(call.phases.compute);
    line.Add(",\"callback_seconds\":");
    line.AddSeconds(call.phases.callback);
  }
  line.Add(",\"bytes_in\":");
  line.AddNumber(call.bytes_in);
  line.Add(",\"bytes_out\":");
  line.AddNumber(call.bytes_out);
  line.Add(",\"messages_in\":");
  line.AddNumber(call.messages_in);
  line.Add(",\"messages_out\":");
  line.AddNumber(call.messages_out);
  line.AddIfThere(",\"request_id\":", call.request_id);
  line.Add(",\"trace_id\":\"");
  line.Add(call.trace.trace());
  line.Add("\",\"span_id\":\"");
  line.Add(call.trace.span());
  if (!call.trace.parent().empty()) {
    line.Add("\",\"parent_id\":\"");
    line.Add(call.trace.parent());
  }
  line.Add("\"}\n");
  sink_(line.text());
}

}  // namespace gluond::server
