// Cancellation: asks a run to stop at its next node. Thread-safe.

#ifndef ENGINE_RUNTIME_CANCELLATION_H_
#define ENGINE_RUNTIME_CANCELLATION_H_

#include <atomic>
#include <chrono>

#include "absl/status/status.h"

namespace gluond {

class Cancellation {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Cancellation(Clock::time_point deadline = Clock::time_point::max()) : deadline_(deadline) {}

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  // OK, CANCELLED or DEADLINE_EXCEEDED.
  absl::Status Check() const {
    if (cancelled_.load(std::memory_order_relaxed)) return absl::CancelledError("the call was cancelled");
    if (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) {
      return absl::DeadlineExceededError("the call's deadline passed");
    }
    return absl::OkStatus();
  }

 private:
  std::atomic<bool> cancelled_ = false;
  const Clock::time_point deadline_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_CANCELLATION_H_
