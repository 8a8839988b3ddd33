// Stage: computing in float or double whatever the tensors hold, where a library or a plain loop wants one type. Inputs
// are converted to temporary space, and outputs from temporary space. A tensor of the right type is not copied.

#ifndef OPS_KERNEL_STAGE_H_
#define OPS_KERNEL_STAGE_H_

#include "absl/status/statusor.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/map.h"

namespace gluond::ops {

// An output, and how it is to be written.
struct Target {
  TBlob blob;
  OpReqType req = kNullOp;
};

// n elements of type C as a tensor.
template <class C>
TBlob VectorOf(const OpContext& ctx, const C* data, int64_t n) {
  return {const_cast<C*>(data), Shape({n}), DTypeOf<C>, ctx.device};
}
// Elements [at, at + n) of a tensor.
inline TBlob Section(const TBlob& x, int64_t at, int64_t n) {
  return {static_cast<char*>(x.data) + at * SizeOf(x.dtype), Shape({n}), x.dtype, x.device};
}

template <class C>
absl::StatusOr<C*> Space(const OpContext& ctx, int64_t n) {
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(n * sizeof(C)));
  return static_cast<C*>(space);
}

// y = x, converted from or to elements of type C.
template <class D, class C>
absl::Status ConvertTo(const OpContext& ctx, const TBlob& x, OpReqType req, const TBlob& y) {
  return MapIn<D, C, 1>(ctx, Identity(), &x, req, y);
}

// A tensor as elements of type C: itself, or a copy.
template <class D, class C>
absl::StatusOr<const C*> As(const OpContext& ctx, const TBlob& x) {
  if (x.dtype == DTypeOf<C>) return static_cast<const C*>(x.data);
  ASSIGN_OR_RETURN(C * copy, Space<C>(ctx, x.Size()));
  RETURN_IF_ERROR((ConvertTo<D, C>(ctx, x, kWriteTo, VectorOf(ctx, copy, x.Size()))));
  return copy;
}

// An output while it is computed: its own memory, or temporary space that Finish copies. Temporary space is for
// another type, and, with `plain`, for an output that is not simply to be written.
template <class D, class C>
struct Stage {
  Target out;
  C* data = nullptr;        // Null for kNullOp, unless `plain`.
  OpReqType req = kNullOp;  // How to write to `data`.

  absl::Status Begin(const OpContext& ctx, const Target& target, bool plain) {
    out = target;
    const bool written = out.req == kWriteTo || out.req == kWriteInplace;
    if (out.blob.dtype == DTypeOf<C> && (plain ? written : out.req != kNullOp)) {
      data = static_cast<C*>(out.blob.data);
      req = out.req;
    } else if (plain || out.req != kNullOp) {
      ASSIGN_OR_RETURN(data, Space<C>(ctx, out.blob.Size()));
      req = kWriteTo;
    }
    return absl::OkStatus();
  }
  // `data` as a tensor of the output's shape. Requires: `data` is not null.
  TBlob blob(const OpContext& ctx) const { return {data, out.blob.shape, DTypeOf<C>, ctx.device}; }
  absl::Status Finish(const OpContext& ctx) const {
    if (data == out.blob.data || out.req == kNullOp) return absl::OkStatus();
    return ConvertTo<D, C>(ctx, VectorOf(ctx, data, out.blob.Size()), out.req, out.blob);
  }
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_STAGE_H_
