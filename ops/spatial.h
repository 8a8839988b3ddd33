// What Convolution and Pooling share: attributes with one number for each spatial axis, one to three.

#ifndef OPS_SPATIAL_H_
#define OPS_SPATIAL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gluond::ops {

inline constexpr int64_t kMaxSpatial = 1 << 20;  // Of kernels, strides and paddings: products of two fit easily.

// Makes `v` one number for each of `axes` axes: `otherwise` where nothing was given.
inline absl::Status FillAxes(absl::string_view name, size_t axes, int64_t otherwise, std::vector<int64_t>* v) {
  if (v->empty()) v->assign(axes, otherwise);
  if (v->size() == axes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("parameter '", name, "' has ", v->size(),
                                                 " elements, expected one for each of the ", axes, " axes of kernel"));
}

}  // namespace gluond::ops

#endif  // OPS_SPATIAL_H_
