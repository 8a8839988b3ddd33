// Fill: y = one value, or y += it.

#ifndef OPS_KERNEL_FILL_H_
#define OPS_KERNEL_FILL_H_

#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {

template <class C>
struct FillElement {
  Out<C> y;
  C value;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, value); }
};

// y = bytes of zero.
template <class D>
absl::Status FillZero(const OpContext& ctx, const TBlob& y) {
  return ZeroBytes(D(), ctx, y);
}

template <class D>
absl::Status Fill(const OpContext& ctx, double value, OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  if (value == 0) return req == kAddTo ? absl::OkStatus() : FillZero<D>(ctx, y);
  return DispatchCompute(y.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<D>(ctx, y.Size(), FillElement<C>{Out<C>(y, req), Convert<C>(value)});
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_FILL_H_
