// FoldAffine: the same predictions from fewer calls. Some calls are a scale and a shift for each channel (FAffine: a
// BatchNorm outside of training). The call before such a call can often take both into its own weight and bias
// (FAbsorbAffine: a Convolution, a FullyConnected). Then one call is left: BatchNorm(Convolution(x, w, b)) becomes
// Convolution(x, w', b'). w' and b' are calls of operators on constants: they need not be computed in each run
// (engine/passes/constants.h).

#ifndef ENGINE_PASSES_FOLD_AFFINE_H_
#define ENGINE_PASSES_FOLD_AFFINE_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/passes/infer.h"

namespace gluond {

// A call stays where another reader has the output before the call, or an output of the call but the first. A call stays,
// too, where a scale, a weight or a bias depends on more than the variables named by `constants`. A weight of 16 bits may
// not hold the product with its scale: it stays but for `narrow`, if the caller looks at the values. Does not change
// `graph`'s nodes. `indexed` and `inferred` are the graph's; what is unknown is left as it is.
absl::StatusOr<Graph> FoldAffine(const NodeOrder& order, const IndexedGraph& indexed, const Inferred& inferred,
                                 const absl::flat_hash_set<std::string>& constants, bool narrow);

}  // namespace gluond

#endif  // ENGINE_PASSES_FOLD_AFFINE_H_
