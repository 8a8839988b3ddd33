// Latencies are durations of which percentiles are asked. Not thread-safe.

#ifndef GLUOND_CLIENT_CLI_LATENCIES_H_
#define GLUOND_CLIENT_CLI_LATENCIES_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace gluond::cli {

class Latencies {
 public:
  void Add(absl::Duration latency) { seconds_.push_back(absl::ToDoubleSeconds(latency)); }

  int64_t size() const { return static_cast<int64_t>(seconds_.size()); }

  // The smallest latency that `percent` of them did not exceed; zero where there are none.
  absl::Duration Percentile(double percent) const;

 private:
  std::vector<double> seconds_;
};

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_LATENCIES_H_
