// ForInference makes a new state from a model's state. The new state predicts the same with less work, and cannot be
// trained: published versions are made of it. Parameters have no gradients there.
//
// The passes of a prediction (engine/compile/pipeline.h) rewrite the graph. Values that then follow from parameters alone are
// computed now, and become parameters; parameters that no output needs any more are left out.
//
// Values differ from those of the model as far as rounding does.

#ifndef ENGINE_NN_INFERENCE_STATE_H_
#define ENGINE_NN_INFERENCE_STATE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/compile/pass_watcher.h"
#include "engine/nn/model.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/task.h"

namespace gluond {

struct InferenceState {
  ModelState state;
  // Where the state has its old graph: the reason. A pass has failed, there is no memory for new values, one of them is not
  // finite, or the clients that compute an operator are away.
  absl::Status why_not;
  PassHistory history;  // The passes have made the new graph.
};

// `state` has all its values, on the host; the predictions are for `device`. Works beside `lane`, a CPU's, and computes on it:
// no thread waits for the turn there. New values are made by `allocator`; the others are the tensors of `state`. Those that
// would make the parameters much larger are not made. INVALID_ARGUMENT: the state has no value of a parameter. CANCELLED or
// DEADLINE_EXCEEDED: as `cancellation` says, which may be null.
Task<absl::StatusOr<InferenceState>> ForInference(ModelState state, Device device, Lane& lane, Allocator& allocator,
                                                  std::shared_ptr<Cancellation> cancellation = nullptr);

}  // namespace gluond

#endif  // ENGINE_NN_INFERENCE_STATE_H_
