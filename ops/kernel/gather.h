// Gather and its transpose, ScatterAdd: slices of a tensor by index, as take and Embedding need them.

#ifndef OPS_KERNEL_GATHER_H_
#define OPS_KERNEL_GATHER_H_

#include "engine/core/op_attr_types.h"
#include "ops/kernel/index.h"

namespace gluond::ops {

// A tensor seen as (outer, n, inner), of which slices along n are taken; the result is (outer, indices, inner).
struct GatherGeometry {
  int64_t outer, n, inner, indices;
};

// Negative indices count from the end where an index out of range is an error.
HOST_DEVICE int64_t Place(int64_t i, int64_t n, IndexMode mode) {
  return mode == kRaise && i < 0 ? ToRange(i + n, n, mode) : ToRange(i, n, mode);
}

// y[o, i, :] = x[o, index[i], :]. Requires: g.n > 0 or y is empty; mode kRaise: CheckIndices was OK.
template <class D>
absl::Status Gather(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& x, const TBlob& index,
                    OpReqType req, const TBlob& y);

// dx[o, index[i], :] += dy[o, i, :] on top of zeros, or of dx for kAddTo. The order of adding is that of the indices,
// and on a GPU so in pieces of 64.
template <class D>
absl::Status ScatterAdd(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy, const TBlob& index,
                        OpReqType req, const TBlob& dx);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_GATHER_H_
