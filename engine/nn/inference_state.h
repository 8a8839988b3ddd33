// ForInference makes a new state from a model's state. The new state predicts the same with less work, and cannot be
// trained: published versions are made of it. Parameters have no gradients there.
//
// * A scale and a shift for each channel go into the weight and the bias before them (engine/passes/fold_affine.h).
// * Calls that depend on parameters alone are computed now, and their outputs become parameters.
// * On a CPU convolutions hand images to each other in blocks of channels (engine/passes/block_channels.h).
// * Parameters that no output needs are left out.
//
// Values differ from those of the model as far as rounding does.

#ifndef ENGINE_NN_INFERENCE_STATE_H_
#define ENGINE_NN_INFERENCE_STATE_H_

#include "absl/status/statusor.h"
#include "engine/nn/model.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/task.h"

namespace gluond {

// `state` has all its values, on the host; the predictions are for `device`. Works beside `lane`, a CPU's, and computes on it:
// no thread waits for the turn there. New values are made by `allocator`; the others are the tensors of `state`. Nothing is
// folded where folding finds no memory, or would make the parameters much larger, or makes a value that is not finite. Neither
// is anything folded where the clients that compute an operator are away. INVALID_ARGUMENT: the state has no value of a
// parameter.
Task<absl::StatusOr<ModelState>> ForInference(ModelState state, Device device, Lane& lane, Allocator& allocator);

}  // namespace gluond

#endif  // ENGINE_NN_INFERENCE_STATE_H_
