// Pooling on the GPU. cuDNN computes flat averages and sums. Kernels of our own are for volumes, for maxima, and for
// windows that reach beyond the padding (pooling_convention full), which cuDNN does not have. A maximum is the first
// largest element on every device, and its position is kept as an int32. cuDNN neither gives nor takes positions, and
// cuDNN's maximum of infinities below 0 is the least finite number. Our kernels have a thread for each output of the
// forward pass and for each input of the backward pass. So no two threads add to one element, and every run gives the
// same bits.

#include <algorithm>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>

#include "engine/core/kernel_cache.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/cuda/cudnn.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/pool.h"

namespace gluond::ops {
namespace {

struct Plan : DnnPlan {
  DnnTensor x, y;
  DnnPooling window;
};

cudnnPoolingMode_t ModeOf(const PoolSize& s) {
  if (s.type == PoolType::kAvg && !s.count_include_pad) return CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  return CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
}

// The factor of cuDNN's result: a sum is an average times the window's size.
double Factor(const PoolSize& s) {
  return s.type == PoolType::kSum ? static_cast<double>(s.kernel[1]) * static_cast<double>(s.kernel[2]) : 1;
}

// True where cuDNN's averages are ours: of flat windows, of which none reaches beyond the padding.
bool IsForDnn(const PoolSize& s, const TBlob& x, const TBlob& y) {
  if (s.type == PoolType::kMax || !s.flat() || !IsFloating(x.dtype) || y.dtype != x.dtype) return false;
  constexpr int64_t kMost = std::numeric_limits<int>::max();  // cuDNN counts elements in 32 bits.
  if (x.Size() == 0 || y.Size() == 0 || x.Size() > kMost || y.Size() > kMost) return false;
  const auto whole = [&](int axis) { return s.out[axis] == (s.in[axis] + 2 * s.pad[axis] - s.kernel[axis]) / s.stride[axis] + 1; };
  return whole(1) && whole(2);
}

absl::StatusOr<std::shared_ptr<Plan>> PlanOf(const OpContext& ctx, const PoolSize& s, const TBlob& x) {
  const int64_t batch = x.shape[0], channels = s.planes / batch;
  return Prepared<Plan>(ctx.kernels, std::tuple(s, batch, x.dtype, ctx.device.id), [&]() -> absl::StatusOr<std::unique_ptr<Plan>> {
    auto plan = std::make_unique<Plan>();
    const auto i = [](int64_t n) { return static_cast<int>(n); };
    RETURN_IF_ERROR(Describe(x.dtype, {batch, channels, s.in[1], s.in[2]}, &plan->x));
    RETURN_IF_ERROR(Describe(x.dtype, {batch, channels, s.out[1], s.out[2]}, &plan->y));
    RETURN_IF_ERROR(plan->window.Create());
    RETURN_IF_ERROR(
        CudaStatus(cudnnSetPooling2dDescriptor(plan->window, ModeOf(s), CUDNN_PROPAGATE_NAN, i(s.kernel[1]), i(s.kernel[2]),
                                               i(s.pad[1]), i(s.pad[2]), i(s.stride[1]), i(s.stride[2])),
                   "Pooling"));
    return plan;
  });
}

// UNIMPLEMENTED: nothing is written.
absl::Status ForwardByDnn(const OpContext& ctx, const PoolSize& s, const TBlob& x, OpReqType req, const TBlob& y) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(const std::shared_ptr<Plan> p, PlanOf(ctx, s, x));
  const Scalar alpha(x.dtype, Factor(s)), beta(x.dtype, req == kAddTo ? 1 : 0);
  return CudaStatus(cudnnPoolingForward(handle, p->window, alpha.get(), p->x, x.data, beta.get(), p->y, y.data), "Pooling");
}

// Requires: an average or a sum, whose gradient depends on dy alone, so that cuDNN does not read its arguments x and y.
absl::Status BackwardByDnn(const OpContext& ctx, const PoolSize& s, const TBlob& dy, OpReqType req, const TBlob& dx) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(const std::shared_ptr<Plan> p, PlanOf(ctx, s, dx));
  const Scalar alpha(dx.dtype, Factor(s)), beta(dx.dtype, req == kAddTo ? 1 : 0);
  return CudaStatus(
      cudnnPoolingBackward(handle, p->window, alpha.get(), p->y, dy.data, p->y, dy.data, p->x, dx.data, beta.get(), p->x, dx.data),
      "Pooling's gradient");
}

// Sizes of planes, in the type that positions are counted in: int32_t where that is enough.
template <class I>
struct Planes {
  I in[3], out[3], kernel[3], stride[3], pad[3];

  explicit Planes(const PoolSize& s) {
    for (int axis = 0; axis < 3; ++axis) {
      in[axis] = static_cast<I>(s.in[axis]);
      out[axis] = static_cast<I>(s.out[axis]);
      kernel[axis] = static_cast<I>(s.kernel[axis]);
      stride[axis] = static_cast<I>(s.stride[axis]);
      pad[axis] = static_cast<I>(s.pad[axis]);
    }
  }
  HOST_DEVICE I in_plane() const { return in[0] * in[1] * in[2]; }
  HOST_DEVICE I out_plane() const { return out[0] * out[1] * out[2]; }
};

template <class I>
struct Range {
  I begin, end;
};

// The elements of an axis in the window of output o.
template <class I>
HOST_DEVICE Range<I> Inputs(const Planes<I>& p, int axis, I o) {
  const I first = o * p.stride[axis] - p.pad[axis], last = first + p.kernel[axis];
  return {first < 0 ? 0 : first, last < p.in[axis] ? last : p.in[axis]};
}
// The outputs whose windows may hold element i of an axis.
template <class I>
HOST_DEVICE Range<I> Outputs(const Planes<I>& p, int axis, I i) {
  const I first = i + p.pad[axis] - p.kernel[axis] + 1, last = (i + p.pad[axis]) / p.stride[axis];
  return {first <= 0 ? 0 : (first + p.stride[axis] - 1) / p.stride[axis], last + 1 < p.out[axis] ? last + 1 : p.out[axis]};
}

// Where planes are `flat`, there is nothing to divide for along the first axis.
template <class C, bool flat, class I>
struct Forward {
  PoolSize s;
  Planes<I> p;
  In<C> x;
  Out<C> y;
  int32_t* index;
  bool set_y, add_index;

  HOST_DEVICE void operator()(int64_t n) const {
    const I o = static_cast<I>(n), plane = o / p.out_plane(), row = (o - plane * p.out_plane()) / p.out[2];
    const I ox = o % p.out[2], oy = flat ? row : row % p.out[1], oz = flat ? 0 : row / p.out[1];
    const Range<I> zs = flat ? Range<I>{0, 1} : Inputs(p, 0, oz), ys = Inputs(p, 1, oy), xs = Inputs(p, 2, ox);
    const int64_t first = int64_t{plane} * p.in_plane();
    const bool is_max = s.type == PoolType::kMax;
    C value = 0;
    I at = -1;
    for (I iz = zs.begin; iz < zs.end; ++iz) {
      for (I iy = ys.begin; iy < ys.end; ++iy) {
        for (I ix = xs.begin; ix < xs.end; ++ix) {
          const I i = (iz * p.in[1] + iy) * p.in[2] + ix;
          const C v = x[first + i];
          if (!is_max) {
            value += v;
          } else if (at < 0 || (value == value && !(v <= value))) {  // The first largest, or the first NaN.
            value = v;
            at = i;
          }
        }
      }
    }
    if (!is_max) value /= static_cast<C>(Divisor(s, oz, oy, ox));
    if (index != nullptr) index[n] = static_cast<int32_t>(add_index ? index[n] + at : at);
    if (set_y) y.Set(n, value);
  }
};

template <class C, bool flat, class I>
struct Backward {
  PoolSize s;
  Planes<I> p;
  In<C> dy;
  Out<C> dx;
  const int32_t* index;

  HOST_DEVICE void operator()(int64_t n) const {
    const I i = static_cast<I>(n), plane = i / p.in_plane(), at = i - plane * p.in_plane(), row = at / p.in[2];
    const I ix = at - row * p.in[2], iy = flat ? row : row % p.in[1], iz = flat ? 0 : row / p.in[1];
    const Range<I> zs = flat ? Range<I>{0, 1} : Outputs(p, 0, iz), ys = Outputs(p, 1, iy), xs = Outputs(p, 2, ix);
    const int64_t first = int64_t{plane} * p.out_plane();
    C sum = 0;
    for (I oz = zs.begin; oz < zs.end; ++oz) {
      for (I oy = ys.begin; oy < ys.end; ++oy) {
        for (I ox = xs.begin; ox < xs.end; ++ox) {
          const int64_t o = first + (oz * p.out[1] + oy) * p.out[2] + ox;
          if (s.type != PoolType::kMax) {
            sum += dy[o] / static_cast<C>(Divisor(s, oz, oy, ox));
          } else if (index[o] == at) {
            sum += dy[o];
          }
        }
      }
    }
    dx.Set(n, sum);
  }
};

// True where 32 bits are enough for all positions: a GPU divides them several times faster than 64.
bool AreFew(const PoolSize& s, const TBlob& x, const TBlob& y) {
  constexpr int64_t kMost = int64_t{1} << 28;  // A position is at most the sum of five such.
  bool few = std::max(x.Size(), y.Size()) <= std::numeric_limits<int32_t>::max();
  for (const auto& sizes : {s.in, s.out, s.kernel, s.stride, s.pad}) {
    few = few && *std::max_element(sizes.begin(), sizes.end()) <= kMost;
  }
  return few;
}

// run(flat, I{}) with what the kernels are made for.
template <class Run>
absl::Status WithPlanes(const PoolSize& s, const TBlob& x, const TBlob& y, const Run& run) {
  const auto counted = [&](auto flat) { return AreFew(s, x, y) ? run(flat, int32_t{}) : run(flat, int64_t{}); };
  return s.flat() ? counted(std::true_type()) : counted(std::false_type());
}

}  // namespace

template <>
absl::Status PoolForward<gpu>(const OpContext& ctx, const PoolSize& size, const TBlob& x, OpReqType req, const TBlob& y,
                              OpReqType index_req, const TBlob& index) {
  int32_t* const at = size.type == PoolType::kMax && index_req != kNullOp ? index.dptr<int32_t>() : nullptr;
  if (req == kNullOp && at == nullptr) return absl::OkStatus();
  if (IsForDnn(size, x, y)) {
    ASSIGN_OR_RETURN(const bool done, Done(ForwardByDnn(ctx, size, x, req, y)));
    if (done) return absl::OkStatus();
  }
  return DispatchReal(x.dtype, [&]<class C>(C) {
    return WithPlanes(size, x, y, [&]<class I>(auto flat, I) {
      return ForEach<gpu>(ctx, y.Size(),
                          Forward<C, decltype(flat)::value, I>{size, Planes<I>(size), In<C>(x), Out<C>(y, req), at, req != kNullOp,
                                                               index_req == kAddTo});
    });
  });
}

template <>
absl::Status PoolBackward<gpu>(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index, OpReqType req,
                               const TBlob& dx) {
  if (req == kNullOp) return absl::OkStatus();
  if (IsForDnn(size, dx, dy)) {
    ASSIGN_OR_RETURN(const bool done, Done(BackwardByDnn(ctx, size, dy, req, dx)));
    if (done) return absl::OkStatus();
  }
  const int32_t* const at = size.type == PoolType::kMax ? index.dptr<int32_t>() : nullptr;
  return DispatchReal(dy.dtype, [&]<class C>(C) {
    return WithPlanes(size, dx, dy, [&]<class I>(auto flat, I) {
      return ForEach<gpu>(ctx, dx.Size(),
                          Backward<C, decltype(flat)::value, I>{size, Planes<I>(size), In<C>(dy), Out<C>(dx, req), at});
    });
  });
}

}  // namespace gluond::ops
