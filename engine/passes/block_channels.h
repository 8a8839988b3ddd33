// BlockChannels: the same predictions on a CPU with fewer copies. Convolutions compute in blocks of channels, and each puts its
// images into them and takes them out again; here calls that can (FChannelBlocks, FAffine) hand them on as they are.

#ifndef ENGINE_PASSES_BLOCK_CHANNELS_H_
#define ENGINE_PASSES_BLOCK_CHANNELS_H_

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/passes/infer.h"

namespace gluond {

// A graph that computes in blocks of channels, or `graph` where blocks would leave out few copies. Outputs keep their layout, and
// calls their names. The nodes of `graph` do not change. `indexed` and `inferred` belong to `graph`; calls of unknown shapes stay
// as they are.
absl::StatusOr<Graph> BlockChannels(const Graph& graph, const IndexedGraph& indexed, const Inferred& inferred);

}  // namespace gluond

#endif  // ENGINE_PASSES_BLOCK_CHANNELS_H_
