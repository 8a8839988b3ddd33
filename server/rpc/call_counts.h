// CallCounts: how the calls of a method have ended, and how long they took. A tenant counts the ends of its own
// (Tenant::Ended). Thread-safe, without a lock.

#ifndef SERVER_RPC_CALL_COUNTS_H_
#define SERVER_RPC_CALL_COUNTS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace gluond::server {

// Counts durations in buckets, as a histogram of Prometheus has them. Thread-safe, without a lock: a count costs two additions.
//
//   latency.Add(Clock::now() - begun);
//   const Latency::Counts counts = latency.Read();
class Latency {
 public:
  // A bucket has the durations up to its bound, in microseconds, and above the one before; a last one has the rest.
  static constexpr std::array<int64_t, 17> kBounds = {100,       250,       500,        1'000,      2'500,      5'000,
                                                      10'000,    25'000,    50'000,     100'000,    250'000,    500'000,
                                                      1'000'000, 2'500'000, 10'000'000, 60'000'000, 600'000'000};
  struct Counts {
    std::array<int64_t, kBounds.size() + 1> buckets{};
    std::chrono::nanoseconds sum{0};
  };

  void Add(std::chrono::nanoseconds duration) {
    const int64_t microseconds = (duration.count() + 999) / 1000;
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), microseconds) - kBounds.begin();
    buckets_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(duration.count(), std::memory_order_relaxed);
  }
  Counts Read() const {
    Counts counts;
    for (size_t i = 0; i < buckets_.size(); ++i) counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    counts.sum = std::chrono::nanoseconds(sum_.load(std::memory_order_relaxed));
    return counts;
  }

 private:
  std::array<std::atomic<int64_t>, kBounds.size() + 1> buckets_{};
  std::atomic<int64_t> sum_ = 0;  // Nanoseconds.
};

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
