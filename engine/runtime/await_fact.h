// A lane's work goes on when a pending fact (engine/core/pending_fact.h) is there, or when it is cancelled.

#ifndef ENGINE_RUNTIME_AWAIT_FACT_H_
#define ENGINE_RUNTIME_AWAIT_FACT_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/task.h"

namespace gluond {

// False: `status` comes from no question. Otherwise calls then(OK) when the question is answered, or then(CANCELLED) or
// then(DEADLINE_EXCEEDED) when `cancellation`, which may be null, says so before; once, later, on the lane. Requires:
// the caller is the lane.
bool AwaitFactOnLane(const absl::Status& status, Lane& lane, std::shared_ptr<Cancellation> cancellation,
                     std::function<void(absl::Status)> then);

// For tasks (task.h).

// co_await Answer(...): OK where `status` came from a question that has been answered, so that another try is worth the
// work. Otherwise the result is `status`, or the error of `cancellation`, which may be null. The task goes on on the
// lane.
inline Callback<absl::Status> Answer(const absl::Status& status, Lane& lane, std::shared_ptr<Cancellation> cancellation) {
  return Callback<absl::Status>([=, &lane](const Callback<absl::Status>::Done& done) {
    if (!AwaitFactOnLane(status, lane, cancellation, done)) done(status);
  });
}

}  // namespace gluond

#endif  // ENGINE_RUNTIME_AWAIT_FACT_H_
