// Reduce: y = combine of f(x) over a set of axes, on either device.
//
//   struct SumOf : SumReducer {
//     template <class A> HOST_DEVICE A Map(A x) const { return x; }
//   };
//   Reduce<D>(ctx, axes, SumOf(), x, req, y)
//
// A reducer has Init<A>(), Map(A x), Combine(A, A), Final(A, count), and kReal: whether integers, too, are reduced as
// floating point. A is double for floating point on a CPU (float
// or double on a GPU) and int64_t for integers. The order of combining depends on the shape alone, so that the bits do
// not depend on the number of threads.

#ifndef OPS_KERNEL_REDUCE_H_
#define OPS_KERNEL_REDUCE_H_

#include "engine/core/status_macros.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/walk.h"

namespace gluond::ops {

// Defaults of a sum; others override them.
struct SumReducer {
  static constexpr bool kReal = false;
  template <class A>
  HOST_DEVICE static A Init() {
    return A(0);
  }
  template <class A>
  HOST_DEVICE static A Map(A x) {
    return x;
  }
  template <class A>
  HOST_DEVICE static A Combine(A a, A b) {
    return WrappingAdd(a, b);
  }
  template <class A>
  HOST_DEVICE static A Final(A a, int64_t /*count*/) {
    return a;
  }
};

// The axes of x that are reduced, and the others, which are y's in this order.
struct ReduceWalk {
  Walk<1> kept, reduced;
  // True when x's innermost axis is a reduced one.
  bool inner_reduced = true;

  ReduceWalk() = default;
  ReduceWalk(const Shape& x, uint32_t axes) {
    Strides strides;
    DenseStrides(x, strides);
    for (int axis = 0; axis < x.ndim(); ++axis) Append(x[axis], strides[axis], axes >> axis & 1);
  }

  // Adds an axis inside the others. Requires: together they are a dense tensor.
  void Append(int64_t n, int64_t stride, bool is_reduced) {
    (is_reduced ? reduced : kept).Append(n, {stride});
    if (n != 1) inner_reduced = is_reduced;
  }
};

}  // namespace gluond::ops

#include BACKEND(reduce.h)

namespace gluond::ops {

// Requires: y has x's kept axes in order, whatever axes of size 1 its shape shows beside them. The result of no
// elements is Final(Init(), 0).
template <class D, class R>
absl::Status Reduce(const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  const auto run = [&](auto c) { return reduce_internal::Run<decltype(c)>(D(), ctx, walk, r, x, req, y); };
  if constexpr (R::kReal) {
    return DispatchReal(x.dtype, run);
  } else {
    return DispatchCompute(x.dtype, run);
  }
}

// `axes` has bit i set when axis i of x is reduced.
template <class D, class R>
absl::Status Reduce(const OpContext& ctx, uint32_t axes, const R& r, const TBlob& x, OpReqType req, const TBlob& y) {
  return Reduce<D>(ctx, ReduceWalk(x.shape, axes), r, x, req, y);
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_REDUCE_H_
