#include "server/start/checkpoint_schedule.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond::server {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;

absl::Status Add(absl::string_view part, CheckpointSchedule* schedule) {
  size_t digits = 0;
  while (digits < part.size() && absl::ascii_isdigit(part[digits])) ++digits;
  const absl::string_view unit = part.substr(digits);
  int64_t number = 0;
  const bool good = absl::SimpleAtoi(part.substr(0, digits), &number) && number > 0 && number < kMost;
  if (good && (unit == "steps" || unit == "step") && schedule->steps == 0) {
    schedule->steps = number;
  } else if (good && (unit == "s" || unit == "m" || unit == "h") && schedule->period.count() == 0) {
    schedule->period = std::chrono::seconds(number * (unit == "s" ? 1 : unit == "m" ? 60 : 3600));
  } else {
    return Invalid("'", Excerpt(part),
                   "' is no number of steps and no time, or one too many; want a number of steps as in 500steps, a time "
                   "in s, m or h as in 10m, or one of each as in 500steps,10m");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointSchedule> ParseCheckpointSchedule(absl::string_view text) {
  CheckpointSchedule schedule;
  if (text.empty()) return schedule;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    RETURN_IF_ERROR(Add(absl::StripAsciiWhitespace(part), &schedule));
  }
  return schedule;
}

}  // namespace gluond::server
