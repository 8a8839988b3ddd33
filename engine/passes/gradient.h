// BuildGradient: the graph of dL/dx for each x, given those of dL/dy for each y, by reverse accumulation over
// FGradient.

#ifndef ENGINE_PASSES_GRADIENT_H_
#define ENGINE_PASSES_GRADIENT_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"

namespace gluond {

// `out_grads[i]` is the entry of dL/d ys[i]; one without a node stands for ones (MXNet's default, also for non-scalars).
// An x that no y depends on, or only through operators that stop gradients, gets zeros_like(x). Several contributions are
// summed in a fixed order: up to 8 by one add_n, more by a chain of _grad_sum. The chain holds one sum instead of all
// contributions; where they have 16 bits, the sum is of float32.
// The result can be differentiated again.
// INVALID_ARGUMENT: an operator on the way has no FGradient; the message names the node, the operator and the way out
// (BlockGrad). INTERNAL: FGradient returned a wrong number of entries. CANCELLED or DEADLINE_EXCEEDED: see pass_work.h.
// `differentiated`, if given, hears of each node and what its FGradient has made.
using OnDifferentiated = std::function<void(const Node& node, const Gradients& made)>;
absl::StatusOr<Gradients> BuildGradient(absl::Span<const NodeEntry> ys, absl::Span<const NodeEntry> xs,
                                        absl::Span<const NodeEntry> out_grads, const OnDifferentiated& differentiated = nullptr);

}  // namespace gluond

#endif  // ENGINE_PASSES_GRADIENT_H_
