// Rows along an axis that may be None, as attributes say it.

#ifndef OPS_ROWS_ALONG_H_
#define OPS_ROWS_ALONG_H_

#include <optional>

#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/row_geometry.h"

namespace gluond::ops {

// None: the tensor as one row.
inline absl::StatusOr<RowGeometry> RowsAlong(const std::optional<int>& axis, const Shape& x) {
  if (!axis) return RowGeometry{1, x.Size(), 1};
  ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, x.ndim()));
  return RowsOf(x, normal);
}

}  // namespace gluond::ops

#endif  // OPS_ROWS_ALONG_H_
