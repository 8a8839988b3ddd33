// LoadReport gathers what a load generator sees: answers, errors, and its own lateness. Not thread-safe.

#ifndef GLUOND_CLIENT_CLI_LOAD_REPORT_H_
#define GLUOND_CLIENT_CLI_LOAD_REPORT_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/latencies.h"

namespace gluond::cli {

class LoadReport {
 public:
  // A request was answered so long after it was due. Percentiles are of the good answers.
  void Answered(absl::Duration latency, const absl::Status& status);
  // A request left so long after it was due.
  void Sent(absl::Duration lateness) { lateness_.Add(lateness); }
  // A request was due while too many were under way.
  void NotSent() { ++not_sent_; }
  // All answers are there, so long after the start.
  void Ended(absl::Duration elapsed) { elapsed_ = elapsed; }

  int64_t succeeded() const { return latencies_.size(); }
  int64_t failed() const { return failed_; }

  // A table for people, and the same as one JSON object in a line.
  std::string Text() const;
  std::string Json() const;

 private:
  struct Failure {
    int64_t count = 0;
    std::string message;  // The first one's.
  };

  int64_t requests() const { return succeeded() + failed_ + not_sent_; }
  double throughput() const;

  Latencies latencies_, lateness_;
  std::map<absl::StatusCode, Failure> failures_;
  int64_t failed_ = 0, not_sent_ = 0;
  absl::Duration elapsed_;
};

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_LOAD_REPORT_H_
