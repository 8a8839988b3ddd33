// RunLoad sends one request again and again, and measures the answers.

#ifndef GLUOND_CLIENT_CLI_LOAD_RUN_H_
#define GLUOND_CLIENT_CLI_LOAD_RUN_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/load_report.h"
#include "grpcpp/generic/generic_stub.h"

namespace gluond::cli {

// The contents of every request: the method's path, as "/pkg.Service/Method", and the message's bytes.
struct Shot {
  std::string path;
  grpc::ByteBuffer message;
};

// The times of requests. With a rate they are due at random moments, so many in a second on average (a Poisson process),
// whatever becomes of those before: an open loop. A request's latency counts from when it was due, so a server that stalls
// is not excused those that could not leave meanwhile. Without a rate, callers each send the next request when the last one
// is answered: a closed loop.
struct Pace {
  double rate = 0;
  int64_t seed = 0;                             // With a rate: the same seed gives the same moments.
  int64_t most_under_way = 4096;                // With a rate: a request that is due while so many are is not sent.
  int64_t concurrency = 8;                      // Callers.
  absl::Duration duration = absl::Seconds(10);  // The time within which requests begin.
  absl::Duration timeout = absl::Minutes(5);    // A request's deadline.
};

// The state of a run, for who waits for its end.
struct LoadState {
  double done = 0;  // The part of the duration that is over.
  int64_t succeeded = 0, failed = 0, under_way = 0;
};

// Returns when the last answer is there. Calls `show` some times a second.
LoadReport RunLoad(grpc::GenericStub& stub, const Shot& shot, const Pace& pace, absl::FunctionRef<void(const LoadState&)> show);

// One request, outside of any count.
absl::Status Fire(grpc::GenericStub& stub, const Shot& shot, absl::Duration timeout);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_LOAD_RUN_H_
