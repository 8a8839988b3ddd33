// CallsUnderWay counts the unary calls that the server has taken, until gRPC has sent their answers; while the server
// drains it lets no more in. Thread-safe.

#ifndef SERVER_RPC_CALLS_UNDER_WAY_H_
#define SERVER_RPC_CALLS_UNDER_WAY_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "server/rpc/draining.h"

namespace gluond::server {

class CallsUnderWay {
 public:
  // Counts one more. UNAVAILABLE: the server drains, and the call is not counted.
  absl::Status Begin() {
    ++count_;  // Before the look: either this call sees that the server drains, or Drain's caller sees this call.
    if (!draining_) return absl::OkStatus();
    --count_;
    return Draining();
  }
  // Requires: a call has begun that has not ended.
  void End() { --count_; }

  void Drain() { draining_ = true; }
  int64_t count() const { return count_; }

 private:
  std::atomic<int64_t> count_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_CALLS_UNDER_WAY_H_
