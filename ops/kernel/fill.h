// Fill: y = one value, or y += it.

#ifndef OPS_KERNEL_FILL_H_
#define OPS_KERNEL_FILL_H_

#include <cstring>

#include "ops/kernel/map.h"

namespace gluond::ops {

// A functor of no inputs.
struct Constant {
  double value;
  template <class C>
  HOST_DEVICE C operator()() const { return Convert<C>(value); }
};

template <class D>
absl::Status Fill(const OpContext& ctx, double value, OpReqType req, const TBlob& y) {
  if (req == kNullOp || (req == kAddTo && value == 0) || y.Size() == 0) return absl::OkStatus();
  if constexpr (std::is_same_v<D, gpu>) {
#ifdef __CUDACC__
    if (value == 0) {
      cudaMemsetAsync(y.data, 0, y.bytes(), Stream(ctx));
      return Launched();
    }
#endif
  }
  return Map<D, 0>(ctx, Constant{value}, nullptr, req, y);
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_FILL_H_
