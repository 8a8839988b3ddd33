// CallsUnderWay counts the calls of one message that the server has taken, until gRPC has sent their answers. It lets
// none in before Open, and no more while the server drains. Thread-safe.

#ifndef SERVER_RPC_CALLS_UNDER_WAY_H_
#define SERVER_RPC_CALLS_UNDER_WAY_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/error_info.h"

namespace gluond::server {

// The error of whatever comes while the server stops.
inline absl::Status Draining() {
  return WithInfo(
      absl::UnavailableError(
          "the server is stopping: it ends what it has begun and takes nothing new; call another one, or try again when it has "
          "been started anew"),
      reason::kDraining);
}

class CallsUnderWay {
 public:
  // Counts one more. UNAVAILABLE: the server loads or drains, and the call is not counted.
  absl::Status Begin() {
    ++count_;  // Before the look: either this call sees that the server drains, or Drain's caller sees this call.
    const State state = state_;
    if (state == kOpen) return absl::OkStatus();
    --count_;
    if (state == kDraining) return Draining();
    return WithInfo(absl::UnavailableError("the server is loading its models; try again in a moment"), reason::kLoading);
  }
  // Requires: a call has begun that has not ended.
  void End() { --count_; }

  void Open() { state_ = kOpen; }
  void Drain() { state_ = kDraining; }
  int64_t count() const { return count_; }
  bool is_open() const { return state_ == kOpen; }
  bool draining() const { return state_ == kDraining; }

 private:
  std::atomic<int64_t> count_ = 0;
  enum State { kLoading, kOpen, kDraining };
  std::atomic<State> state_ = kLoading;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_CALLS_UNDER_WAY_H_
