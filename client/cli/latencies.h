// Latencies gathers the measurements of a load generator. Not thread-safe: each worker has its own,
// Merge joins them.

#ifndef GLUOND_CLIENT_CLI_LATENCIES_H_
#define GLUOND_CLIENT_CLI_LATENCIES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gluond::cli {

class Latencies {
 public:
  // Adds one answer: only good ones count for the percentiles.
  void Add(absl::Duration latency, const absl::Status& status);
  void Merge(const Latencies& other);

  int64_t good() const { return static_cast<int64_t>(seconds_.size()); }
  int64_t bad() const;

  // The smallest latency that `percent` of the good answers did not exceed; zero where there are
  // none.
  absl::Duration Percentile(double percent) const;

  // Requests, rate, percentiles, and errors by code with an example of each.
  std::string Report(absl::Duration elapsed) const;

 private:
  struct Failure {
    int64_t count = 0;
    std::string example;
  };

  std::vector<float> seconds_;
  std::map<absl::StatusCode, Failure> failures_;
};

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_LATENCIES_H_
