// Update: a step of an optimizer on many weights, element by element. A step F sets the new weight w and states s from the
// old ones and the gradient g. States are written where they lie, the weight to an output that may be the weight itself.
//
//   struct Momentum {
//     // The inputs of a weight: how many, which are the weight and the first state, and the number of states. Input 1 is g.
//     static constexpr int kInputs = 3, kWeight = 0, kFirstState = 2, kStates = 1;
//     double lr, momentum;
//     template <class C> HOST_DEVICE void operator()(C& w, C g, C* s) const { w += s[0] = C(momentum) * s[0] - C(lr) * g; }
//   };
//   struct MakeMomentum {  // The step of weight k, whose inputs are x[i].data and x[i].dtype.
//     const double* numbers;
//     template <class X> HOST_DEVICE Momentum operator()(int64_t k, const X& x) const { return {numbers[k], 0.9}; }
//   };
//   return Update<D, Momentum>(ctx, MakeMomentum{numbers}, in, req, out);

#ifndef OPS_KERNEL_UPDATE_H_
#define OPS_KERNEL_UPDATE_H_

#include "absl/types/span.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include BACKEND(update.h)

namespace gluond::ops {

// Steps on out.size() weights, whose outputs have one type. `in` points to the inputs of the first weight, those of the second
// and so on. Inputs and states of a weight have its number of elements, but those that only Make reads.
template <class D, class F, class Make>
absl::Status Update(const OpContext& ctx, const Make& make, const TBlob* in, absl::Span<const OpReqType> req,
                    absl::Span<const TBlob> out) {
  if (out.empty()) return absl::OkStatus();
  return DispatchReal(out[0].dtype, [&](auto c) { return update_internal::Run<decltype(c), F>(D(), ctx, make, in, req, out); });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_UPDATE_H_
