// Pooling on the GPU. cuDNN computes flat averages and sums, and flat maxima whose positions nobody wants. Kernels of
// our own are for volumes, for windows that reach beyond the padding (pooling_convention full), which cuDNN does not
// have, and for maxima with positions and their gradient: the first largest element is the same on every device and is
// kept as an int32, but cuDNN neither gives nor takes positions. They have a thread for each output of the forward pass
// and each input of the backward one, so that nothing is added by two threads and every run gives the same bits.

#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>

#include "ops/kernel/convert.h"
#include "ops/kernel/cuda/cudnn.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/pool.h"
#include "ops/kernel/primitive_cache.h"

namespace gluond::ops {
namespace {

struct Plan {
  DnnTensor x, y;
  DnnPooling window;
};

cudnnPoolingMode_t ModeOf(const PoolSize& s) {
  if (s.type == PoolType::kMax) return CUDNN_POOLING_MAX;
  if (s.type == PoolType::kAvg && !s.count_include_pad) return CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  return CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
}

// The factor of cuDNN's result: a sum is an average times the window's size.
double Factor(const PoolSize& s) {
  return s.type == PoolType::kSum ? static_cast<double>(s.kernel[1]) * static_cast<double>(s.kernel[2]) : 1;
}

// True where cuDNN's windows are ours: they are flat, and none reaches beyond the padding. cuDNN counts elements in 32
// bits.
bool IsForDnn(const PoolSize& s, const TBlob& x, const TBlob& y) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (!s.flat() || !IsFloating(x.dtype) || y.dtype != x.dtype) return false;
  if (x.Size() == 0 || y.Size() == 0 || x.Size() > kMost || y.Size() > kMost) return false;
  const auto whole = [&](int axis) {
    return s.out[axis] == (s.in[axis] + 2 * s.pad[axis] - s.kernel[axis]) / s.stride[axis] + 1;
  };
  return whole(1) && whole(2);
}

absl::StatusOr<Plan*> PlanOf(const OpContext& ctx, const PoolSize& s, const TBlob& x) {
  thread_local PrimitiveCache<std::tuple<PoolSize, int64_t, DType, int>, Plan> cache;
  const int64_t batch = x.shape[0], channels = s.planes / batch;
  return cache.Get({s, batch, x.dtype, ctx.device.id}, [&]() -> absl::StatusOr<std::unique_ptr<Plan>> {
    auto plan = std::make_unique<Plan>();
    const auto i = [](int64_t n) { return static_cast<int>(n); };
    RETURN_IF_ERROR(Describe(x.dtype, {batch, channels, s.in[1], s.in[2]}, &plan->x));
    RETURN_IF_ERROR(Describe(x.dtype, {batch, channels, s.out[1], s.out[2]}, &plan->y));
    RETURN_IF_ERROR(plan->window.Create());
    RETURN_IF_ERROR(CudaStatus(
        cudnnSetPooling2dDescriptor(plan->window, ModeOf(s), CUDNN_PROPAGATE_NAN, i(s.kernel[1]), i(s.kernel[2]),
                                    i(s.pad[1]), i(s.pad[2]), i(s.stride[1]), i(s.stride[2])), "Pooling"));
    return plan;
  });
}

// UNIMPLEMENTED: nothing is written.
absl::Status ForwardByDnn(const OpContext& ctx, const PoolSize& s, const TBlob& x, OpReqType req, const TBlob& y) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(const Plan* p, PlanOf(ctx, s, x));
  const Scalar alpha(x.dtype, Factor(s)), beta(x.dtype, req == kAddTo ? 1 : 0);
  return CudaStatus(cudnnPoolingForward(handle, p->window, alpha.get(), p->x, x.data, beta.get(), p->y, y.data),
                    "Pooling");
}

// Requires: an average or a sum, whose gradient depends on dy alone, so that cuDNN does not read its arguments x and y.
absl::Status BackwardByDnn(const OpContext& ctx, const PoolSize& s, const TBlob& dy, OpReqType req, const TBlob& dx) {
  ASSIGN_OR_RETURN(const cudnnHandle_t handle, DnnHandle(ctx));
  ASSIGN_OR_RETURN(const Plan* p, PlanOf(ctx, s, dx));
  const Scalar alpha(dx.dtype, Factor(s)), beta(dx.dtype, req == kAddTo ? 1 : 0);
  return CudaStatus(cudnnPoolingBackward(handle, p->window, alpha.get(), p->y, dy.data, p->y, dy.data, p->x, dx.data,
                                         beta.get(), p->x, dx.data), "Pooling's gradient");
}

// The window of one output. Where planes are `flat`, there is nothing to divide for along the first axis.
template <bool flat>
struct Window {
  Extent z = {0, 1, 1}, y, x;

  HOST_DEVICE Window(const PoolSize& s, int64_t output) {
    const int64_t row = output / s.out[2];
    x = WindowExtent(s, 2, output % s.out[2]);
    y = WindowExtent(s, 1, flat ? row : row % s.out[1]);
    if constexpr (!flat) z = WindowExtent(s, 0, row / s.out[1]);
  }

  // body(position in the plane) for every element, in row-major order.
  template <class Body>
  HOST_DEVICE void ForEach(const PoolSize& s, const Body& body) const {
    for (int64_t iz = z.begin; iz < z.end; ++iz) {
      for (int64_t iy = y.begin; iy < y.end; ++iy) {
        for (int64_t ix = x.begin; ix < x.end; ++ix) body((iz * s.in[1] + iy) * s.in[2] + ix);
      }
    }
  }
};

template <class C, bool flat>
struct Forward {
  PoolSize s;
  In<C> x;
  Out<C> y;
  int32_t* index;
  bool set_y, add_index;

  HOST_DEVICE void operator()(int64_t i) const {
    const Window<flat> window(s, i % s.out_plane());
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
      value /= static_cast<C>(Divisor(s, window.z, window.y, window.x));
    }
    if (index != nullptr) index[i] = static_cast<int32_t>(add_index ? index[i] + at : at);
    if (set_y) y.Set(i, value);
  }
};

template <class C, bool flat>
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
    const int64_t at = i % s.in_plane(), row = at / s.in[2], plane = i / s.in_plane() * s.out_plane();
    Extent slices = {0, 1, 0};
    if constexpr (!flat) slices = Outputs(0, row / s.in[1]);
    const Extent rows = Outputs(1, flat ? row : row % s.in[1]), cols = Outputs(2, at % s.in[2]);
    C sum = 0;
    for (int64_t oz = slices.begin; oz < slices.end; ++oz) {
      for (int64_t oy = rows.begin; oy < rows.end; ++oy) {
        for (int64_t ox = cols.begin; ox < cols.end; ++ox) {
          const int64_t o = plane + (oz * s.out[1] + oy) * s.out[2] + ox;
          if (s.type != PoolType::kMax) {
            sum += dy[o] / static_cast<C>(Divisor(s, oz, oy, ox));
          } else if (index[o] == at) {
            sum += dy[o];
          }
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
  if (at == nullptr && IsForDnn(size, x, y)) {
    ASSIGN_OR_RETURN(const bool done, Done(ForwardByDnn(ctx, size, x, req, y)));
    if (done) return absl::OkStatus();
  }
  return DispatchReal(x.dtype, [&](auto c) {
    using C = decltype(c);
    const auto run = [&](auto flat) {
      return ForEach<gpu>(ctx, y.Size(), Forward<C, decltype(flat)::value>{size, In<C>(x), Out<C>(y, req), at,
                                                                           req != kNullOp, index_req == kAddTo});
    };
    return size.flat() ? run(std::true_type()) : run(std::false_type());
  });
}

template <>
absl::Status PoolBackward<gpu>(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index,
                               OpReqType req, const TBlob& dx) {
  if (req == kNullOp) return absl::OkStatus();
  if (size.type != PoolType::kMax && IsForDnn(size, dx, dy)) {
    ASSIGN_OR_RETURN(const bool done, Done(BackwardByDnn(ctx, size, dy, req, dx)));
    if (done) return absl::OkStatus();
  }
  const int32_t* const at = size.type == PoolType::kMax ? index.dptr<int32_t>() : nullptr;
  return DispatchReal(dy.dtype, [&](auto c) {
    using C = decltype(c);
    const auto run = [&](auto flat) {
      return ForEach<gpu>(ctx, dx.Size(), Backward<C, decltype(flat)::value>{size, In<C>(dy), Out<C>(dx, req), at});
    };
    return size.flat() ? run(std::true_type()) : run(std::false_type());
  });
}

}  // namespace gluond::ops
