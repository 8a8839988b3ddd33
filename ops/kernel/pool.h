// Pooling over one to three spatial axes: the maximum, average or sum of each window of each plane (one channel of one
// image). The maximum of a window is its first largest element in row-major order, or its first NaN, on every device. A
// GPU uses cuDNN where that has the same pooling.

#ifndef OPS_KERNEL_POOL_H_
#define OPS_KERNEL_POOL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "engine/core/device.h"
#include "engine/core/host_device.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_context.h"

namespace gluond::ops {

enum class PoolType { kMax, kAvg, kSum };

struct PoolSize {
  PoolType type;
  bool count_include_pad;  // Averages divide by the window's size, padding included.
  int64_t planes;
  // One or two axes are the last ones; the first are of size 1. pad < kernel.
  std::array<int64_t, 3> in, out, kernel, stride, pad;

  // True where nothing happens along the first axis.
  bool flat() const { return in[0] == 1 && out[0] == 1 && kernel[0] == 1 && pad[0] == 0; }
  HOST_DEVICE int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  HOST_DEVICE int64_t out_plane() const { return out[0] * out[1] * out[2]; }

  friend bool operator==(const PoolSize&, const PoolSize&) = default;
  template <class H>
  friend H AbslHashValue(H h, const PoolSize& s) {
    return H::combine(std::move(h), s.type, s.count_include_pad, s.planes, s.in, s.out, s.kernel, s.stride, s.pad);
  }
};

// The part [begin, end) of the input that output o sees along an axis; empty beyond the edge.
struct Extent {
  int64_t begin, end, padded;  // `padded`: its length with the padding inside.
};
HOST_DEVICE Extent WindowExtent(const PoolSize& s, int axis, int64_t o) {
  const int64_t start = o * s.stride[axis] - s.pad[axis];
  const int64_t stop = start + s.kernel[axis];
  const int64_t edge = s.in[axis] + s.pad[axis];
  const int64_t padded = (stop < edge ? stop : edge) - start;
  return {start > 0 ? start : 0, stop < s.in[axis] ? stop : s.in[axis], padded};
}

// The divisor of the average over a window; 1 for sums and for windows beyond the edge.
HOST_DEVICE int64_t Divisor(const PoolSize& s, const Extent& z, const Extent& y, const Extent& x) {
  if (s.type != PoolType::kAvg) return 1;
  if (z.begin >= z.end || y.begin >= y.end || x.begin >= x.end) return 1;
  if (!s.count_include_pad) return (z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin);
  const int64_t count = z.padded * y.padded * x.padded;
  return count > 0 ? count : 1;
}
HOST_DEVICE int64_t Divisor(const PoolSize& s, int64_t oz, int64_t oy, int64_t ox) {
  return Divisor(s, WindowExtent(s, 0, oz), WindowExtent(s, 1, oy), WindowExtent(s, 2, ox));
}

// x: (batch, ...), planes of in. y: planes of out. index (int32, may be kNullOp): for kMax, the position in its plane
// of each window's maximum. A window beyond the edge has the index -1 and the maximum 0. Floating dtypes.
template <class D>
absl::Status PoolForward(const OpContext& ctx, const PoolSize& size, const TBlob& x, OpReqType req, const TBlob& y,
                         OpReqType index_req, const TBlob& index);

// On a CPU, of float32 images in blocks of channels (batch, blocks, height, width, block): a plane is a block's. With `add`, y
// is added to. Requires: flat sizes, none of them 0.
void PoolForwardBlocked(const OpContext& ctx, const PoolSize& size, int64_t block, const float* x, bool add, float* y);

// dx from dy and, for kMax, the forward's index.
template <class D>
absl::Status PoolBackward(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index, OpReqType req,
                          const TBlob& dx);

#define GLUOND_DECLARE_POOL(D)                                                                                                    \
  template <>                                                                                                                     \
  absl::Status PoolForward<D>(const OpContext&, const PoolSize&, const TBlob&, OpReqType, const TBlob&, OpReqType, const TBlob&); \
  template <>                                                                                                                     \
  absl::Status PoolBackward<D>(const OpContext&, const PoolSize&, const TBlob&, const TBlob&, OpReqType, const TBlob&)
GLUOND_DECLARE_POOL(cpu);
GLUOND_DECLARE_POOL(gpu);
#undef GLUOND_DECLARE_POOL

}  // namespace gluond::ops

#endif  // OPS_KERNEL_POOL_H_
