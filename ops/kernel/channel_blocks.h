// Images into blocks of channels and out of them, on a CPU. (planes, block, area) of an image's channels becomes (planes, area,
// block): a plane is a block of an image, and `area` is height times width.

#ifndef OPS_KERNEL_CHANNEL_BLOCKS_H_
#define OPS_KERNEL_CHANNEL_BLOCKS_H_

#include <cstdint>

#include "engine/core/op_context.h"

namespace gluond::ops {

struct BlockedSize {
  int64_t planes, block, area;
};

// With `add`, y is added to. Requires: `block` is a multiple of 8.
void ToBlocked(const OpContext& ctx, const BlockedSize& size, const float* x, bool add, float* y);
void FromBlocked(const OpContext& ctx, const BlockedSize& size, const float* x, bool add, float* y);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CHANNEL_BLOCKS_H_
