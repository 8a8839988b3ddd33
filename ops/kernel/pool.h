// Pooling over two spatial axes: the maximum, average or sum of each window of each plane (one channel of one image).
// The maximum of a window is its first largest element in row-major order, or its first NaN; the same on every device.
// On a GPU by cuDNN where it has the same pooling.

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
  std::array<int64_t, 2> in, out, kernel, stride, pad;

  HOST_DEVICE int64_t in_plane() const { return in[0] * in[1]; }
  HOST_DEVICE int64_t out_plane() const { return out[0] * out[1]; }

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

// What an average over two extents divides by; 1 for sums and for windows beyond the edge.
HOST_DEVICE int64_t Divisor(const PoolSize& s, Extent y, Extent x) {
  if (s.type != PoolType::kAvg) return 1;
  const int64_t count =
      s.count_include_pad ? y.padded * x.padded : (y.end - y.begin) * (x.end - x.begin);
  return y.end > y.begin && x.end > x.begin && count > 0 ? count : 1;
}

// x: (batch, ...), planes of in. y: planes of out; index (int32, may be kNullOp): for kMax, the position in its plane
// of each window's maximum, -1 for a window beyond the edge, whose maximum is 0. Floating dtypes.
template <class D>
absl::Status PoolForward(const OpContext& ctx, const PoolSize& size, const TBlob& x, OpReqType req, const TBlob& y,
                         OpReqType index_req, const TBlob& index);

// dx from dy and, for kMax, the forward's index.
template <class D>
absl::Status PoolBackward(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index,
                          OpReqType req, const TBlob& dx);

#define GLUOND_DECLARE_POOL(D)                                                                                        \
  template <>                                                                                                         \
  absl::Status PoolForward<D>(const OpContext&, const PoolSize&, const TBlob&, OpReqType, const TBlob&, OpReqType,    \
                              const TBlob&);                                                                          \
  template <>                                                                                                         \
  absl::Status PoolBackward<D>(const OpContext&, const PoolSize&, const TBlob&, const TBlob&, OpReqType, const TBlob&)
GLUOND_DECLARE_POOL(cpu);
GLUOND_DECLARE_POOL(gpu);
#undef GLUOND_DECLARE_POOL

}  // namespace gluond::ops

#endif  // OPS_KERNEL_POOL_H_
