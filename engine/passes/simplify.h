// Simplify: the same values from fewer nodes. Dead code goes (only nodes that the outputs need are kept), and equal
// calls (same operator, attributes and inputs; no state, no random numbers, no mutated inputs) become one. Sums of them may
// round in another way: a call may compute its output onto another term (kAddTo), and no call does so onto its own.

#ifndef ENGINE_PASSES_SIMPLIFY_H_
#define ENGINE_PASSES_SIMPLIFY_H_

#include "absl/status/statusor.h"
#include "engine/core/graph.h"

namespace gluond {

// Does not change the graph's nodes; nodes whose inputs changed are copied.
absl::StatusOr<Graph> Simplify(const NodeOrder& order);

}  // namespace gluond

#endif  // ENGINE_PASSES_SIMPLIFY_H_
