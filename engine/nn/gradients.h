// GradientOutputs: a graph's gradients for a model's parameters.

#ifndef ENGINE_NN_GRADIENTS_H_
#define ENGINE_NN_GRADIENTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/bound_graph.h"

namespace gluond {

// One output for each parameter that `ys` depend on and whose grad_req is not kNull, in the store's order. `heads` as
// BuildGradient's out_grads. INVALID_ARGUMENT: as BuildGradient.
absl::StatusOr<std::vector<GraphOutput>> GradientOutputs(const std::vector<NodeEntry>& ys, const std::vector<NodeEntry>& heads,
                                                         const ParameterStore& parameters);

}  // namespace gluond

#endif  // ENGINE_NN_GRADIENTS_H_
