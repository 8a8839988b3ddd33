// BlockChannels: the same predictions on a CPU with fewer copies. Convolutions compute in blocks of channels, and each puts its
// images into them and takes them out again; here calls that can (FChannelBlocks, FAffine) hand them on as they are.

#ifndef ENGINE_PASSES_BLOCK_CHANNELS_H_
#define ENGINE_PASSES_BLOCK_CHANNELS_H_

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/passes/infer.h"

namespace gluond {

// The graph as it is where that would leave out few copies. Its outputs stay as they are, and its calls' names. Does not
// change `graph`'s nodes. `indexed` and `inferred` are the graph's; what is unknown is left as it is.
absl::StatusOr<Graph> BlockChannels(const Graph& graph, const IndexedGraph& indexed, const Inferred& inferred);

}  // namespace gluond

#endif  // ENGINE_PASSES_BLOCK_CHANNELS_H_
