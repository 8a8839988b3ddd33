// RowGeometry: where the rows of a tensor, the elements along one axis, lie.

#ifndef OPS_KERNEL_ROW_GEOMETRY_H_
#define OPS_KERNEL_ROW_GEOMETRY_H_

#include <cstdint>

#include "engine/core/host_device.h"
#include "engine/core/shape.h"

namespace gluond::ops {

// The shape as (outer, n, inner), with n the axis.
struct RowGeometry {
  int64_t outer, n, inner;

  HOST_DEVICE int64_t rows() const { return outer * inner; }
  // Where row r begins; its elements lie `inner` apart.
  HOST_DEVICE int64_t begin(int64_t r) const { return inner == 1 ? r * n : r / inner * n * inner + r % inner; }
};

// Requires: 0 <= axis < shape.ndim().
inline RowGeometry RowsOf(const Shape& shape, int axis) {
  return {shape.Size(0, axis), shape[axis], shape.Size(axis + 1, shape.ndim())};
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_ROW_GEOMETRY_H_
