// Parts of a tensor along one axis: operators that join and cut tensors copy such parts.

#ifndef OPS_PARTS_H_
#define OPS_PARTS_H_

#include <algorithm>

#include "engine/core/shape.h"
#include "ops/kernel/strided.h"

namespace gluond::ops {

// The copy of a tensor of shape `part` to or from where it begins, at index `at` along `axis` of `whole`. Both have the
// same axes.
inline StridedCopy Part(const Shape& whole, const Shape& part, int axis, int64_t at, bool to_whole) {
  StridedCopy copy{.dims = part};
  Strides dense;
  DenseStrides(whole, dense);
  (to_whole ? copy.y_offset : copy.x_offset) = at * dense[axis];
  std::copy_n(dense, Shape::kMaxRank, to_whole ? copy.y_strides : copy.x_strides);
  DenseStrides(part, to_whole ? copy.x_strides : copy.y_strides);
  return copy;
}

// The shape with `n` put in as axis `axis`.
inline Shape Inserted(const Shape& x, int axis, int64_t n) {
  Shape y = Shape::OfRank(x.ndim() + 1);
  y[axis] = n;
  for (int i = 0; i < x.ndim(); ++i) y[i + (i >= axis)] = x[i];
  return y;
}
inline Shape Removed(const Shape& x, int axis) {
  Shape y = Shape::OfRank(x.ndim() - 1);
  for (int i = 0; i < y.ndim(); ++i) y[i] = x[i + (i >= axis)];
  return y;
}

}  // namespace gluond::ops

#endif  // OPS_PARTS_H_
