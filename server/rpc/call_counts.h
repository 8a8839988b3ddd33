// CallCounts: how the calls of a method have ended, and how long they took. A tenant counts the ends of its own
// (Tenant::Ended). Thread-safe, without a lock.

#ifndef SERVER_RPC_CALL_COUNTS_H_
#define SERVER_RPC_CALL_COUNTS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "server/rpc/latency.h"

namespace gluond::server {

class CallCounts {
 public:
  // gRPC has these, from OK to UNAUTHENTICATED.
  static constexpr size_t kCodes = 17;

  // A call of no tenant's caller has ended.
  void Ended(absl::StatusCode code) { codes_[IndexOf(code)].fetch_add(1, std::memory_order_relaxed); }
  // A call of anybody's has failed by no doing of its caller (LogLevel::kError).
  void WasServersFault(absl::StatusCode code) { faults_[IndexOf(code)].fetch_add(1, std::memory_order_relaxed); }
  // A call of anybody's has taken so long.
  void Took(std::chrono::nanoseconds time) { latency_.Add(time); }
  int64_t ended(absl::StatusCode code) const { return codes_[IndexOf(code)].load(std::memory_order_relaxed); }
  int64_t servers_faults(absl::StatusCode code) const { return faults_[IndexOf(code)].load(std::memory_order_relaxed); }
  // From a call's headers to its last word.
  const Latency& latency() const { return latency_; }

 private:
  static size_t IndexOf(absl::StatusCode code) {
    const auto i = static_cast<size_t>(code);
    return i < kCodes ? i : static_cast<size_t>(absl::StatusCode::kUnknown);
  }

  std::array<std::atomic<int64_t>, kCodes> codes_{}, faults_{};
  Latency latency_;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_CALL_COUNTS_H_
