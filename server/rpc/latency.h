// Latency counts durations in buckets, as a histogram of Prometheus has them. Thread-safe, without a lock: a count costs
// two additions.
//
//   latency.Add(Clock::now() - begun);
//   const Latency::Counts counts = latency.Read();

#ifndef SERVER_RPC_LATENCY_H_
#define SERVER_RPC_LATENCY_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gluond::server {

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

}  // namespace gluond::server

#endif  // SERVER_RPC_LATENCY_H_
