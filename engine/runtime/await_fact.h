// AwaitFactOnLane: a lane's work goes on when a pending fact (engine/core/pending_fact.h) is there, or when it is cancelled.

#ifndef ENGINE_RUNTIME_AWAIT_FACT_H_
#define ENGINE_RUNTIME_AWAIT_FACT_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/lane.h"

namespace gluond {

// False: `status` comes from no question. Otherwise calls then(OK) when the question is answered, or then(CANCELLED) or
// then(DEADLINE_EXCEEDED) when `cancellation`, which may be null, says so before; once, later, on the lane. Requires: the
// caller is the lane.
bool AwaitFactOnLane(const absl::Status& status, Lane& lane, std::shared_ptr<Cancellation> cancellation,
                     std::function<void(absl::Status)> then);

}  // namespace gluond

#endif  // ENGINE_RUNTIME_AWAIT_FACT_H_
