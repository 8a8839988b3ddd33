// FoldAffine: the same predictions from fewer calls. Where a call is a scale and a shift for each channel (FAffine: a
// BatchNorm outside of training), and the call before it can compute those in its own weight and bias (FAbsorbAffine: a
// Convolution, a FullyConnected), one call is left: BatchNorm(Convolution(x, w, b)) becomes Convolution(x, w', b').
// w' and b' are calls of operators on constants, for fold_constants of engine/nn to compute once.

#ifndef ENGINE_PASSES_FOLD_AFFINE_H_
#define ENGINE_PASSES_FOLD_AFFINE_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/passes/infer.h"

namespace gluond {

// A call stays where anybody else reads the output before it, or an output of its own but the first, and where a scale, a
// weight or a bias depends on more than `constants`, names of variables. Does not change `graph`'s nodes.
// Errors as InferPartially's.
absl::StatusOr<Graph> FoldAffine(const Graph& graph, const Signatures& known,
                                 const absl::flat_hash_set<std::string>& constants);

}  // namespace gluond

#endif  // ENGINE_PASSES_FOLD_AFFINE_H_
