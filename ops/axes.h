// The axes that a reduction covers, and the shape that is left: MXNet's rules for axis, keepdims and exclude.

#ifndef OPS_AXES_H_
#define OPS_AXES_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/shape.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/row_geometry.h"

namespace gluond::ops {

using AxisList = std::optional<std::vector<int64_t>>;

// Bit i is set when axis i is reduced: each listed axis, or, with `exclude`, each that is not listed. No list, or an
// empty one, stands for all axes. INVALID_ARGUMENT: an axis out of range, or twice.
inline absl::StatusOr<uint32_t> ReducedAxes(int ndim, const AxisList& axes, bool exclude) {
  const uint32_t all = (1u << ndim) - 1;
  if (!axes.has_value() || axes->empty()) return all;
  uint32_t mask = 0;
  for (int64_t listed : *axes) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(listed, ndim));
    if (mask >> axis & 1) return absl::InvalidArgumentError(absl::StrCat("axis ", listed, " is listed twice"));
    mask |= 1u << axis;
  }
  return exclude ? all & ~mask : mask;
}

// The axis alone, or all of them where it is None.
inline absl::StatusOr<uint32_t> AxisOrAll(const std::optional<int>& axis, int ndim) {
  if (!axis) return (1u << ndim) - 1;
  ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, ndim));
  return 1u << normal;
}

// The shape without the axes of `mask`, or with 1 in their place. MXNet has no tensors of rank 0: a tensor that is
// reduced over every axis has shape (1).
inline Shape ReducedShape(const Shape& x, uint32_t mask, bool keepdims) {
  Shape y = Shape::Scalar();
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const bool reduced = mask >> axis & 1;
    if (!reduced || keepdims) y.Append(reduced ? 1 : x[axis]);
  }
  if (y.ndim() == 0) y.Append(1);
  return y;
}

// Rows along an axis; None: the tensor as one row.
inline absl::StatusOr<RowGeometry> RowsAlong(const std::optional<int>& axis, const Shape& x) {
  if (!axis) return RowGeometry{1, x.Size(), 1};
  ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, x.ndim()));
  return RowsOf(x, normal);
}

}  // namespace gluond::ops

#endif  // OPS_AXES_H_
