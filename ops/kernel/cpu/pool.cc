// Pooling on a CPU: planes, or their rows, to threads. Windows are put together as in pool_rows.h, those that move by one
// element as in pool_dense.h, and wide ones, positions of maxima and gradients as in pool_windows.h.

#include <algorithm>
#include <type_traits>

#include "engine/core/status_macros.h"
#include "ops/kernel/cpu/pool_dense.h"
#include "ops/kernel/cpu/pool_rows.h"
#include "ops/kernel/cpu/pool_windows.h"
#include "ops/kernel/pool.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {
namespace {

using namespace pool_internal;

// A last axis that every window takes whole becomes part of the one before it: global pooling, a row of one window.
PoolSize Collapsed(PoolSize s) {
  for (int axis = 0; axis < 2; ++axis) {
    if (s.out[2] != 1 || s.kernel[2] != s.in[2] || s.pad[2] != 0) return s;
    const int64_t n = s.in[2];
    const auto merge = [&](std::array<int64_t, 3>* v, int64_t times, int64_t first) { *v = {first, (*v)[0], (*v)[1] * times}; };
    merge(&s.in, n, 1);
    merge(&s.out, 1, 1);
    merge(&s.kernel, n, 1);
    merge(&s.stride, n, 1);
    merge(&s.pad, n, 0);
  }
  return s;
}

// True where each plane is one window.
bool IsGlobal(const PoolSize& s) { return s.out_plane() == 1 && s.kernel == s.in && s.pad == std::array<int64_t, 3>{}; }

// Calls body(plane) for all planes, spread over the threads.
template <class Body>
void ForEachPlane(const OpContext& ctx, const PoolSize& s, const Body& body) {
  const int64_t work = s.out_plane() * s.kernel[0] * s.kernel[1] * s.kernel[2] + 1;
  Parallel(ctx, s.planes, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) body(plane);
  });
}

// run(stride), of a type of its own for the strides that loops should be compiled for.
template <class F>
void WithStride(int64_t stride, const F& run) {
  if (stride == 1) return run(std::integral_constant<int64_t, 1>());
  if (stride == 2) return run(std::integral_constant<int64_t, 2>());
  run(stride);
}

template <class C>
void ForwardRows(const OpContext& ctx, const PoolSize& s, const C* x, bool add, C* y) {
  const RowPlan plan(s);
  const int64_t work = plan.chunk * s.kernel[0] * s.kernel[1] * s.kernel[2] + 1;
  WithStride(plan.step, [&](auto step) {
    Parallel(ctx, plan.stretches(s), std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      if (s.type == PoolType::kMax) {
        FoldRows(s, plan, step, x, begin, end, Lowest<C>(), Larger<C>(), add, y);
      } else {
        FoldRows(s, plan, step, x, begin, end, C{0}, Plus<C>(), add, y);
      }
    });
  });
}

template <class C>
void Forward(const OpContext& ctx, const PoolSize& s, const C* x, OpReqType req, C* y, OpReqType index_req, int32_t* index) {
  if (IsDense(s)) {
    return ForEachPlane(ctx, s, [&](int64_t plane) {
      const C* const from = x + plane * s.in_plane();
      C* const to = y == nullptr ? y : y + plane * s.out_plane();
      if (index == nullptr) return DensePlane(s, from, req == kAddTo, to);
      DenseIndexPlane(s, from, req == kAddTo, to, index_req == kAddTo, index + plane * s.out_plane());
    });
  }
  if (s.type != PoolType::kMax && IsGlobal(s)) {
    const C divisor = static_cast<C>(Divisor(s, 0, 0, 0));
    return ForEachPlane(ctx, s, [&](int64_t plane) {
      const C value = Sum(x + plane * s.in_plane(), s.in_plane()) / divisor;
      y[plane] = req == kAddTo ? y[plane] + value : value;
    });
  }
  if (index == nullptr && !IsWide(s)) return ForwardRows(ctx, s, x, req == kAddTo, y);
  WithStride(s.stride[2], [&](auto stride) {
    ForEachPlane(ctx, s, [&](int64_t plane) {
      const C* const from = x + plane * s.in_plane();
      C* const to = y == nullptr ? y : y + plane * s.out_plane();
      int32_t* const at = index == nullptr ? index : index + plane * s.out_plane();
      ForEachStretch(s, [&](const Stretch& t) {
        if (at != nullptr) {
          IndexStretch(s, stride, from, t, req == kAddTo, to, index_req == kAddTo, at);
        } else if (s.type == PoolType::kMax) {
          WideMaxStretch(s, from, t, req == kAddTo, to);
        } else {
          WideSumStretch(s, stride, from, t, req == kAddTo, to);
        }
      });
    });
  });
}

template <class C>
absl::Status Backward(const OpContext& ctx, const PoolSize& s, const C* dy, const int32_t* index, OpReqType req, C* dx) {
  if (s.type != PoolType::kMax && IsDense(s) && IsDense(Transposed(s))) {
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(s.planes * s.out_plane() * sizeof(C)));
    C* const shares = static_cast<C*>(space);
    ForEachPlane(ctx, s, [&](int64_t plane) {
      C* const share = shares + plane * s.out_plane();
      std::copy_n(dy + plane * s.out_plane(), s.out_plane(), share);
      ForEachStretch(s, [&](const Stretch& t) { Divide(s, std::integral_constant<int64_t, 1>(), t, share + t.begin); });
      DensePlane(Transposed(s), share, req == kAddTo, dx + plane * s.in_plane());
    });
    return absl::OkStatus();
  }
  if (s.type != PoolType::kMax && IsGlobal(s)) {
    const C divisor = static_cast<C>(Divisor(s, 0, 0, 0));
    ForEachPlane(ctx, s, [&](int64_t plane) {
      C* const to = dx + plane * s.in_plane();
      const C share = dy[plane] / divisor;
      if (req != kAddTo) return (void)std::fill_n(to, s.in_plane(), share);
      for (int64_t i = 0; i < s.in_plane(); ++i) to[i] += share;
    });
    return absl::OkStatus();
  }
  WithStride(s.stride[2], [&](auto stride) {
    ForEachPlane(ctx, s, [&](int64_t plane) {
      const C* const from = dy + plane * s.out_plane();
      C* const to = dx + plane * s.in_plane();
      if (req != kAddTo) std::fill_n(to, s.in_plane(), C{0});
      if (s.type == PoolType::kMax) {
        const int32_t* const at = index + plane * s.out_plane();
        for (int64_t o = 0; o < s.out_plane(); ++o) {
          if (at[o] >= 0) to[at[o]] += from[o];
        }
      } else {
        ForEachStretch(s, [&](const Stretch& t) { SpreadStretch(s, stride, from, t, to); });
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace

template <>
absl::Status PoolForward<cpu>(const OpContext& ctx, const PoolSize& size, const TBlob& x, OpReqType req, const TBlob& y,
                              OpReqType index_req, const TBlob& index) {
  int32_t* const at = size.type == PoolType::kMax && index_req != kNullOp ? index.dptr<int32_t>() : nullptr;
  if (req == kNullOp && at == nullptr) return absl::OkStatus();
  return DispatchReal(x.dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    ASSIGN_OR_RETURN(const C* from, (As<cpu, C>(ctx, x)));
    Stage<cpu, C> to;
    RETURN_IF_ERROR(to.Begin(ctx, {y, req}, false));
    Forward(ctx, Collapsed(size), from, to.req, to.data, index_req, at);
    return to.Finish(ctx);
  });
}

template <>
absl::Status PoolBackward<cpu>(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index, OpReqType req,
                               const TBlob& dx) {
  if (req == kNullOp) return absl::OkStatus();
  const int32_t* const at = size.type == PoolType::kMax ? index.dptr<int32_t>() : nullptr;
  return DispatchReal(dy.dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    ASSIGN_OR_RETURN(const C* from, (As<cpu, C>(ctx, dy)));
    Stage<cpu, C> to;
    RETURN_IF_ERROR(to.Begin(ctx, {dx, req}, false));
    RETURN_IF_ERROR(Backward(ctx, Collapsed(size), from, at, to.req, to.data));
    return to.Finish(ctx);
  });
}

}  // namespace gluond::ops
