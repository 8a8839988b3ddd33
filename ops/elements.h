// ForEachElement: the kernel of an operator that computes each element of its output for itself. `make` is given the
// output, as elements of the type that is computed in, and makes the functor of an index:
//
//   return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) { return Half<C>{In<C>(x[0]), out}; });

#ifndef OPS_ELEMENTS_H_
#define OPS_ELEMENTS_H_

#include "ops/kernel/convert.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/launch.h"
#include "ops/operator.h"

namespace gluond::ops {

template <class D, class Make>
absl::Status ForEachElement(const OpContext& ctx, OpReqType req, const TBlob& y, const Make& make, int64_t grain = kGrain) {
  if (req == kNullOp) return absl::OkStatus();
  return DispatchCompute(y.dtype, [&]<class C>(C) { return ForEach<D>(ctx, y.Size(), make(Out<C>(y, req)), grain); });
}

// The same in floating point, whatever the output's type is.
template <class D, class Make>
absl::Status ForEachReal(const OpContext& ctx, OpReqType req, const TBlob& y, const Make& make, int64_t grain = kGrain) {
  if (req == kNullOp) return absl::OkStatus();
  return DispatchReal(y.dtype, [&]<class C>(C) { return ForEach<D>(ctx, y.Size(), make(Out<C>(y, req)), grain); });
}

// The kernel of an operator whose output is one number everywhere.
template <int value>
struct Constant {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    return Fill<D>(ctx, value, req[0], y[0]);
  }
};

}  // namespace gluond::ops

#endif  // OPS_ELEMENTS_H_
