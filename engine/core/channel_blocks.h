// The fact by which the calls of a graph that only predicts hand images to each other in blocks of channels:
// engine/passes/block_channels.h.
//
// Images (batch, channels, height, width) in blocks of b channels are (batch, channels / b, height, width, b): what a
// processor's vectors hold lies together.

#ifndef ENGINE_CORE_CHANNEL_BLOCKS_H_
#define ENGINE_CORE_CHANNEL_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/types/span.h"
#include "engine/core/graph.h"
#include "engine/core/shape.h"

namespace gluond {

// The same call with its output 0 in blocks.
struct BlockedCall {
  std::string op;
  AttrDict dict = {};
  int64_t block = 0;    // Channels in a block; 0: there is no such call.
  uint32_t inputs = 0;  // The first so many are in blocks, too.
  bool gains = false;   // Putting these inputs into blocks pays.
};

// "FChannelBlocks": such a call on a CPU, for float32. `shapes` are the inputs'; of input 0 the channels are known. `block`
// is that of input 0 where that is in blocks already, or 0.
using FChannelBlocks = std::function<BlockedCall(const Node& node, absl::Span<const Shape> shapes, int64_t block)>;

}  // namespace gluond

#endif  // ENGINE_CORE_CHANNEL_BLOCKS_H_
