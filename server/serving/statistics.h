// Statistics of a version's requests and batches. Thread-safe. The times are of gluond's steady clock.

#ifndef SERVER_SERVING_STATISTICS_H_
#define SERVER_SERVING_STATISTICS_H_

#include <chrono>
#include <cstdint>
#include <map>

#include "engine/core/mutex.h"
#include "server/rpc/call_counts.h"

namespace gluond::server {

// A count and the sum of times.
struct Times {
  uint64_t count = 0;
  std::chrono::nanoseconds sum{0};
  void Add(std::chrono::nanoseconds time, uint64_t times = 1) {
    count += times;
    sum += time * static_cast<int64_t>(times);
  }
};

class Statistics {
 public:
  // The phases of a batch.
  struct Phases {
    std::chrono::nanoseconds input{0};   // Putting inputs together.
    std::chrono::nanoseconds infer{0};   // Computing, and waiting for the lane.
    std::chrono::nanoseconds output{0};  // Taking outputs apart.
  };
  struct Batches {
    Times input, infer, output;
  };
  // How long the phases of answered requests took, for percentiles. The counts have their sums.
  struct Latencies {
    Latency queue, input, infer, output;
  };
  struct Counts {
    Times success, fail, queue, input, infer, output;  // Times of requests.
    uint64_t inferences = 0;                           // Rows; a request without a batch's axis is one.
    uint64_t executions = 0;                           // Batches computed.
    std::map<int64_t, Batches> by_rows;
    std::chrono::system_clock::time_point last{};  // The last success.
  };

  void Failed(std::chrono::nanoseconds time) {
    MutexLock lock(mu_);
    counts_.fail.Add(time);
  }
  void Succeeded(std::chrono::nanoseconds time, std::chrono::nanoseconds queued, const Phases& phases) {
    latencies_.queue.Add(queued);
    latencies_.input.Add(phases.input);
    latencies_.infer.Add(phases.infer);
    latencies_.output.Add(phases.output);
    MutexLock lock(mu_);
    counts_.success.Add(time);
    counts_.queue.Add(queued);
    counts_.input.Add(phases.input);
    counts_.infer.Add(phases.infer);
    counts_.output.Add(phases.output);
    counts_.last = std::chrono::system_clock::now();
  }
  void Executed(int64_t rows, const Phases& phases) {
    MutexLock lock(mu_);
    ++counts_.executions;
    counts_.inferences += static_cast<uint64_t>(rows);
    Batches& batches = counts_.by_rows[rows];
    batches.input.Add(phases.input);
    batches.infer.Add(phases.infer);
    batches.output.Add(phases.output);
  }
  const Latencies& latencies() const { return latencies_; }
  Counts Read() const {
    MutexLock lock(mu_);
    return counts_;
  }
  // Counts::success alone: who lists many versions copies no counts of batches.
  Times success() const {
    MutexLock lock(mu_);
    return counts_.success;
  }

 private:
  mutable Mutex mu_;
  Counts counts_ ABSL_GUARDED_BY(mu_);
  Latencies latencies_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_STATISTICS_H_
