// What Convolution and Pooling share: attributes with one number for each spatial axis, one axis or two.

#ifndef OPS_SPATIAL_H_
#define OPS_SPATIAL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/shape.h"

namespace gluond::ops {

inline constexpr int64_t kMaxSpatial = 1 << 20;  // Of kernels, strides and paddings: products of two fit easily.

// Makes `v` one number for each of `axes` axes: `otherwise` where nothing was given.
inline absl::Status FillAxes(absl::string_view name, size_t axes, int64_t otherwise, std::vector<int64_t>* v) {
  if (v->empty()) v->assign(axes, otherwise);
  if (v->size() == axes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("parameter '", name, "' has ", v->size(),
                                                 " elements, expected one for each of the ", axes, " axes of kernel"));
}

// Number `axis` of two; a single axis is the second, and the first is `otherwise`.
inline int64_t AxisOf(const std::vector<int64_t>& v, int axis, int64_t otherwise) {
  if (v.size() == 2) return v[axis];
  return axis == 1 ? v[0] : otherwise;
}
// The same of a tensor (batch, channels, spatial axes...).
inline int64_t SpatialOf(const Shape& shape, int axis) {
  return shape.ndim() == 4 ? shape[2 + axis] : axis == 1 ? shape[2] : 1;
}

}  // namespace gluond::ops

#endif  // OPS_SPATIAL_H_
