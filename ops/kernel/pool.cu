// Pooling on the GPU: a thread for each output of the forward pass and each input of the backward one, so that nothing
// is added by two threads and every run gives the same bits.

#include "ops/kernel/launch.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/pool.h"

namespace gluond::ops {
namespace {

template <class C>
struct Forward {
  PoolSize s;
  In<C> x;
  Out<C> y;
  int32_t* index;
  bool set_y, add_index;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t plane = i / s.out_plane(), o = i % s.out_plane();
    const Extent rows = WindowExtent(s, 0, o / s.out[1]), cols = WindowExtent(s, 1, o % s.out[1]);
    const int64_t begin = plane * s.in_plane();
    C best = 0, sum = 0;
    int64_t at = -1;
    for (int64_t iy = rows.begin; iy < rows.end; ++iy) {
      for (int64_t ix = cols.begin; ix < cols.end; ++ix) {
        const C v = x[begin + iy * s.in[1] + ix];
        sum += v;
        if (at < 0 || (best == best && (v > best || v != v))) {
          best = v;
          at = iy * s.in[1] + ix;
        }
      }
    }
    if (index != nullptr) index[i] = static_cast<int32_t>(add_index ? index[i] + at : at);
    if (set_y) y.Set(i, s.type == PoolType::kMax ? best : sum / static_cast<C>(Divisor(s, rows, cols)));
  }
};

template <class C>
struct Backward {
  PoolSize s;
  In<C> dy;
  Out<C> dx;
  const int32_t* index;

  // The outputs whose windows may hold element i of an axis.
  HOST_DEVICE Extent Outputs(int axis, int64_t i) const {
    const int64_t first = i + s.pad[axis] - s.kernel[axis] + 1, last = (i + s.pad[axis]) / s.stride[axis];
    const int64_t begin = first <= 0 ? 0 : (first + s.stride[axis] - 1) / s.stride[axis];
    return {begin, last + 1 < s.out[axis] ? last + 1 : s.out[axis], 0};
  }
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t plane = i / s.in_plane(), at = i % s.in_plane();
    const Extent rows = Outputs(0, at / s.in[1]), cols = Outputs(1, at % s.in[1]);
    C sum = 0;
    for (int64_t oy = rows.begin; oy < rows.end; ++oy) {
      for (int64_t ox = cols.begin; ox < cols.end; ++ox) {
        const int64_t o = plane * s.out_plane() + oy * s.out[1] + ox;
        if (s.type == PoolType::kMax) {
          if (index[o] == at) sum += dy[o];
        } else {
          sum += dy[o] / static_cast<C>(Divisor(s, WindowExtent(s, 0, oy), WindowExtent(s, 1, ox)));
        }
      }
    }
    dx.Set(i, sum);
  }
};

}  // namespace

template <>
absl::Status PoolForward<gpu>(const OpContext& ctx, const PoolSize& size, const TBlob& x, OpReqType req, const TBlob& y,
                              OpReqType index_req, const TBlob& index) {
  int32_t* const at = size.type == PoolType::kMax && index_req != kNullOp ? index.dptr<int32_t>() : nullptr;
  if (req == kNullOp && at == nullptr) return absl::OkStatus();
  return DispatchReal(x.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<gpu>(ctx, y.Size(),
                        Forward<C>{size, In<C>(x), Out<C>(y, req), at, req != kNullOp, index_req == kAddTo});
  });
}

template <>
absl::Status PoolBackward<gpu>(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index,
                               OpReqType req, const TBlob& dx) {
  if (req == kNullOp) return absl::OkStatus();
  const int32_t* const at = size.type == PoolType::kMax ? index.dptr<int32_t>() : nullptr;
  return DispatchReal(dy.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<gpu>(ctx, dx.Size(), Backward<C>{size, In<C>(dy), Out<C>(dx, req), at});
  });
}

}  // namespace gluond::ops
