// Copy: y = x, bytes for bytes, or y += x. Identities and operators that change a shape are made of it.

#ifndef OPS_KERNEL_COPY_H_
#define OPS_KERNEL_COPY_H_

#include "ops/kernel/map.h"

namespace gluond::ops {

// Requires: one type and one number of elements. Nothing is done where y already is x.
template <class D>
absl::Status Copy(const OpContext& ctx, const TBlob& x, OpReqType req, const TBlob& y) {
  if (req == kAddTo) return Map<D, 1>(ctx, Identity(), &x, req, y);
  if (req == kNullOp || x.data == y.data || y.Size() == 0) return absl::OkStatus();
  return CopyBytes(D(), ctx, x, y);
}

// The kernel of an operator whose first output is its first input.
struct CopyFirst {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> x, absl::Span<const OpReqType> req,
                          absl::Span<const TBlob> y) {
    return Copy<D>(ctx, x[0], req[0], y[0]);
  }
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_COPY_H_
