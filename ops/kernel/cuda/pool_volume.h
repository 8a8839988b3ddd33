// Pooling over three spatial axes on a GPU: one output, or one input on the way back, for each thread. What pool.h says
// of windows, maxima and divisors holds here, too.

#ifndef OPS_KERNEL_CUDA_POOL_VOLUME_H_
#define OPS_KERNEL_CUDA_POOL_VOLUME_H_

#include <cstdint>

#include "ops/kernel/map.h"
#include "ops/kernel/pool.h"

namespace gluond::ops {

namespace pool_volume_internal {

// The window of one output.
struct Window {
  int64_t begin[3], end[3], divisor;

  HOST_DEVICE Window(const PoolSize& s, int64_t output) {
    int64_t padded = 1, inside = 1;
    for (int axis = 2; axis >= 0; --axis) {
      const int64_t start = output % s.out[axis] * s.stride[axis] - s.pad[axis], stop = start + s.kernel[axis];
      const int64_t edge = s.in[axis] + s.pad[axis];
      output /= s.out[axis];
      begin[axis] = start > 0 ? start : 0;
      end[axis] = stop < s.in[axis] ? stop : s.in[axis];
      padded *= (stop < edge ? stop : edge) - start;
      inside *= end[axis] > begin[axis] ? end[axis] - begin[axis] : 0;
    }
    const int64_t count = s.count_include_pad ? padded : inside;
    divisor = s.type == PoolType::kAvg && inside > 0 && count > 0 ? count : 1;
  }

  // body(position in the plane) for every element, in row-major order.
  template <class Body>
  HOST_DEVICE void ForEach(const PoolSize& s, const Body& body) const {
    for (int64_t z = begin[0]; z < end[0]; ++z) {
      for (int64_t y = begin[1]; y < end[1]; ++y) {
        for (int64_t x = begin[2]; x < end[2]; ++x) body((z * s.in[1] + y) * s.in[2] + x);
      }
    }
  }
};

template <class C>
struct Forward {
  PoolSize s;
  In<C> x;
  Out<C> y;
  Out<int64_t> index;
  bool set_y, set_index;

  HOST_DEVICE void operator()(int64_t i) const {
    const Window window(s, i % s.out_plane());
    const int64_t plane = i / s.out_plane() * s.in_plane();
    C value = 0;
    int64_t at = -1;
    if (s.type == PoolType::kMax) {
      window.ForEach(s, [&](int64_t p) {
        const C v = x[plane + p];
        if (at >= 0 && (value != value || v <= value)) return;  // The first largest, or the first NaN.
        value = v;
        at = p;
      });
    } else {
      window.ForEach(s, [&](int64_t p) { value += x[plane + p]; });
      value /= static_cast<C>(window.divisor);
    }
    if (set_y) y.Set(i, value);
    if (set_index) index.Set(i, at);
  }
};

template <class C>
struct Backward {
  PoolSize s;
  In<C> dy;
  In<int64_t> index;
  Out<C> dx;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t position = i % s.in_plane(), plane = i / s.in_plane() * s.out_plane();
    int64_t rest = position, first[3], last[3];  // The outputs whose windows hold the element.
    for (int axis = 2; axis >= 0; --axis) {
      const int64_t p = rest % s.in[axis] + s.pad[axis], before = p - s.kernel[axis];
      rest /= s.in[axis];
      first[axis] = before < 0 ? 0 : before / s.stride[axis] + 1;
      last[axis] = p / s.stride[axis] < s.out[axis] ? p / s.stride[axis] : s.out[axis] - 1;
    }
    C sum = 0;
    for (int64_t a = first[0]; a <= last[0]; ++a) {
      for (int64_t b = first[1]; b <= last[1]; ++b) {
        for (int64_t c = first[2]; c <= last[2]; ++c) {
          const int64_t o = (a * s.out[1] + b) * s.out[2] + c;
          if (s.type != PoolType::kMax) {
            sum += dy[plane + o] / static_cast<C>(Window(s, o).divisor);
          } else if (index[plane + o] == position) {
            sum += dy[plane + o];
          }
        }
      }
    }
    dx.Set(i, sum);
  }
};

}  // namespace pool_volume_internal

// As PoolForward and PoolBackward. Requires: something to write.
inline absl::Status VolumePoolForward(const OpContext& ctx, const PoolSize& size, const TBlob& x, OpReqType req,
                                      const TBlob& y, OpReqType index_req, const TBlob& index) {
  return DispatchReal(y.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<gpu>(ctx, y.Size(),
                        pool_volume_internal::Forward<C>{size, In<C>(x), Out<C>(y, req), Out<int64_t>(index, index_req),
                                                         req != kNullOp, index_req != kNullOp});
  });
}
inline absl::Status VolumePoolBackward(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index,
                                       OpReqType req, const TBlob& dx) {
  return DispatchReal(dx.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<gpu>(ctx, dx.Size(),
                        pool_volume_internal::Backward<C>{size, In<C>(dy), In<int64_t>(index), Out<C>(dx, req)});
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CUDA_POOL_VOLUME_H_
