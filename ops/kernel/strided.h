// CopyStrided: y[...] = x[...] over one index space with any strides on either side: broadcasting, transposing,
// slicing, concatenating, repeating, reversing.

#ifndef OPS_KERNEL_STRIDED_H_
#define OPS_KERNEL_STRIDED_H_

#include "absl/status/status.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_context.h"
#include "engine/core/shape.h"
#include "engine/core/tensor.h"
#include "ops/kernel/walk.h"

namespace gluond::ops {

struct StridedCopy {
  Shape dims;  // The index space.
  int64_t x_offset = 0, y_offset = 0;
  Strides x_strides = {}, y_strides = {};  // In elements, by axis of dims; may be 0 (for x) or negative.
  double scale = 1;                        // Elements are multiplied by it.
};

// Writes, or adds to, the elements of y that the walk reaches, each once; the others are left as they are. Requires:
// x and y have one type; every element that is reached is there.
template <class D>
absl::Status CopyStrided(const OpContext& ctx, const StridedCopy& copy, const TBlob& x, OpReqType req, const TBlob& y);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_STRIDED_H_
