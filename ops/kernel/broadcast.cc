#include "ops/kernel/broadcast.h"

namespace gluond::ops {

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  if (!a.rank_known() || !b.rank_known()) return Shape();
  Shape y = Shape::OfRank(std::max(a.ndim(), b.ndim()));
  for (int axis = 0; axis < y.ndim(); ++axis) {
    const int in_a = axis - (y.ndim() - a.ndim()), in_b = axis - (y.ndim() - b.ndim());
    const int64_t m = in_a < 0 ? 1 : a[in_a], n = in_b < 0 ? 1 : b[in_b];
    if (m == n || n == 1) {
      y[axis] = m;
    } else if (m == 1) {
      y[axis] = n;
    } else if (m == Shape::kUnknown || n == Shape::kUnknown) {
      y[axis] = m == Shape::kUnknown ? n : m;  // The unknown size is n or 1.
    } else {
      return absl::InvalidArgumentError(absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(), " do not broadcast: axis ",
                                                     axis, " is ", m, " and ", n, "; want equal sizes, or 1"));
    }
  }
  return Shape::FromDims(y.dims());
}

Walk<2> BroadcastWalk(const TBlob* x, const Shape& y) {
  Strides strides[2];
  for (int t = 0; t < 2; ++t) BroadcastStrides(x[t].shape, y, strides[t]);
  return Walk<2>(y, strides);
}

}  // namespace gluond::ops
