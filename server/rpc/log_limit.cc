#include "server/rpc/log_limit.h"

#include <algorithm>

namespace gluond::server {

bool LogLimit::TakeLine(Reason& reason, Clock::time_point now) {
  const int64_t earned = std::max<int64_t>((now - reason.since) / kEvery, 0);
  reason.lines = std::min(reason.lines + earned, kBurst);
  reason.since = reason.lines == kBurst ? now : reason.since + earned * kEvery;
  if (reason.lines == 0) return false;
  --reason.lines;
  return true;
}

std::optional<int64_t> LogLimit::Admit(const std::string& reason, Clock::time_point now) {
  MutexLock lock(mu_);
  Reason& state = reasons_.try_emplace(reason, Reason{.since = now}).first->second;
  if (TakeLine(state, now)) return std::exchange(state.left_out, 0);
  ++state.left_out;
  return std::nullopt;
}

LogLimit::Counts LogLimit::TakeLeftOut(Clock::time_point now) {
  Counts counts;
  MutexLock lock(mu_);
  for (auto& [name, reason] : reasons_) {
    if (reason.left_out > 0 && TakeLine(reason, now)) counts.emplace_back(name, std::exchange(reason.left_out, 0));
  }
  return counts;
}

LogLimit::Counts LogLimit::TakeAllLeftOut() {
  Counts counts;
  MutexLock lock(mu_);
  for (auto& [name, reason] : reasons_) {
    if (reason.left_out > 0) counts.emplace_back(name, std::exchange(reason.left_out, 0));
  }
  return counts;
}

}  // namespace gluond::server
