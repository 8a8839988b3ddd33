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

// y[o, i, :] = x[o, index[i], :]. Requires: g.n > 0 or y is empty; mode kRaise: CheckIndices was OK.
template <class D>
absl::Status Gather(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& x, const TBlob& index,
                    OpReqType req, const TBlob& y);

// dx[o, index[i], :] += dy[o, i, :] on top of zeros, or of dx for kAddTo. The order of adding is that of the indices, and on
// a GPU so in pieces of 64.
template <class D>
absl::Status ScatterAdd(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy,
                        const TBlob& index, OpReqType req, const TBlob& dx);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_GATHER_H_
