// Update: one step of an optimizer, element by element: f(w, g, s) sets the new weight w and states s from the old
// ones and the gradient g. States are written where they lie, the weight to an output that may be the weight itself.
//
//   struct Momentum {
//     double lr, momentum;
//     template <class C> HOST_DEVICE void operator()(C& w, C g, C* s) const { w += s[0] = C(momentum) * s[0] - C(lr)
//     * g; }
//   };
//   return Update<D, 1>(ctx, Momentum{lr, momentum}, weight, grad, {&mean}, req, out);

#ifndef OPS_KERNEL_UPDATE_H_
#define OPS_KERNEL_UPDATE_H_

#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include BACKEND(update.h)

namespace gluond::ops {

// `s`: pointer to `states` tensors. All of one number of elements; y may be w.
template <class D, int states, class F>
absl::Status Update(const OpContext& ctx, const F& f, const TBlob& w, const TBlob& g, const TBlob* s, OpReqType req,
                    const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  return DispatchReal(y.dtype, [&](auto c) { return update_internal::Run<decltype(c), states>(D(), ctx, f, w, g, s, req, y); });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_UPDATE_H_
