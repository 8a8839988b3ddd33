#include "server/rpc/log_limit.h"

#include <algorithm>
#include <iterator>

#include "engine/core/error_info.h"

namespace gluond::server {
namespace {

// To make room looks at all reasons.
constexpr std::chrono::seconds kMakeRoomEvery{1};

}  // namespace

LogLevel LevelOf(absl::StatusCode code, absl::string_view reason) {
  switch (code) {
    case absl::StatusCode::kOk: return LogLevel::kInfo;
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal: return LogLevel::kError;
    // The client that computes an operator is another one's business, or the caller's own.
    case absl::StatusCode::kUnavailable: return reason == reason::kProviderGone ? LogLevel::kWarning : LogLevel::kError;
    // A client can say any checksum. A loss of the disk has no reason.
    case absl::StatusCode::kDataLoss: return reason == reason::kDamagedOnTheWay ? LogLevel::kWarning : LogLevel::kError;
    default: return LogLevel::kWarning;
  }
}

LogLevel LevelOf(const absl::Status& status) {
  if (status.ok()) return LogLevel::kInfo;
  const std::optional<ErrorInfo> info = InfoOf(status);
  return LevelOf(status.code(), info.has_value() ? absl::string_view(info->reason) : "");
}

void LogLimit::Earn(Reason& reason, Clock::time_point now) {
  const int64_t earned = std::max<int64_t>((now - reason.since) / kEvery, 0);
  reason.lines = std::min(reason.lines + earned, kBurst);
  reason.since = reason.lines == kBurst ? now : reason.since + earned * kEvery;
}

bool LogLimit::TakeLine(Reason& reason, Clock::time_point now) {
  Earn(reason, now);
  if (reason.lines == 0) return false;
  --reason.lines;
  return true;
}

LogLimit::Reason& LogLimit::FindOrAdd(const std::string& reason, Clock::time_point now) {
  if (const auto found = reasons_.find(reason); found != reasons_.end()) return found->second;
  if (reasons_.size() >= most_reasons_ && now - made_room_ >= kMakeRoomEvery) {
    made_room_ = now;
    for (auto each = reasons_.begin(); each != reasons_.end();) {
      Earn(each->second, now);
      const bool is_over = each->second.lines == kBurst && each->second.left_out == 0;
      each = is_over ? reasons_.erase(each) : std::next(each);
    }
  }
  return reasons_.try_emplace(reasons_.size() < most_reasons_ ? reason : kOthers, Reason{.since = now}).first->second;
}

std::optional<int64_t> LogLimit::Admit(const std::string& reason, Clock::time_point now) {
  MutexLock lock(mu_);
  Reason& state = FindOrAdd(reason, now);
  if (TakeLine(state, now)) return std::exchange(state.left_out, 0);
  ++state.left_out;
  return std::nullopt;
}

LogLimit::Counts LogLimit::TakeLeftOut(Which which, Clock::time_point now) {
  Counts counts;
  MutexLock lock(mu_);
  for (auto& [name, reason] : reasons_) {
    if (reason.left_out > 0 && (which == kAll || TakeLine(reason, now))) {
      counts.emplace_back(name, std::exchange(reason.left_out, 0));
    }
  }
  return counts;
}

}  // namespace gluond::server
