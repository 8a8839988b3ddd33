// Broadcast: y = f(a, b) where a and b broadcast to y's shape, as in NumPy.

#ifndef OPS_KERNEL_BROADCAST_H_
#define OPS_KERNEL_BROADCAST_H_

#include "ops/kernel/map.h"
#include "ops/kernel/walk.h"

namespace gluond::ops {

// The broadcast of a and b, as far as they are known. INVALID_ARGUMENT: an axis of neither equal sizes nor 1.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);
// The walk over y's shape of x[0] and x[1], which broadcast to it.
Walk<2> BroadcastWalk(const TBlob* x, const Shape& y);

}  // namespace gluond::ops

#include BACKEND(broadcast.h)

namespace gluond::ops {

// y = f(x[0], x[1]). y may be an input of y's own shape.
template <class D, class F>
absl::Status Broadcast(const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  const auto run = [&](auto c) { return broadcast_internal::Run<decltype(c)>(D(), ctx, f, x, req, y); };
  if constexpr (kTakesIntegers<F, 2>) {
    return DispatchCompute(y.dtype, run);
  } else {
    return DispatchReal(y.dtype, run);
  }
}

template <class F>
struct BroadcastBinary {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x, absl::Span<const OpReqType> req,
                          absl::Span<const TBlob> y) {
    return Broadcast<D>(ctx, MakeFunctor<F>(attrs), x.data(), req[0], y[0]);
  }
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_BROADCAST_H_
