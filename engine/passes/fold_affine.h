// FoldAffine: the same predictions from fewer calls. Some calls are a scale and a shift for each channel (FAffine: a
// BatchNorm outside of training). The call before such a call can often take both into its own weight and bias
// (FAbsorbAffine: a Convolution, a FullyConnected). Then one call is left: BatchNorm(Convolution(x, w, b)) becomes
// Convolution(x, w', b'). w' and b' are calls of operators on constants, for fold_constants of engine/nn to compute
// once.

#ifndef ENGINE_PASSES_FOLD_AFFINE_H_
#define ENGINE_PASSES_FOLD_AFFINE_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/passes/infer.h"

namespace gluond {

// A call stays where another reader has the output before the call, or an output of the call but the first. A call stays,
// too, where a scale, a weight or a bias depends on more than the variables named by `constants`. Does not change
// `graph`'s nodes. Errors as InferPartially's.
absl::StatusOr<Graph> FoldAffine(const Graph& graph, const Signatures& known, const absl::flat_hash_set<std::string>& constants);

}  // namespace gluond

#endif  // ENGINE_PASSES_FOLD_AFFINE_H_
