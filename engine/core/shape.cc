#include "engine/core/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 48;
// Kernels may walk the other dimensions of an empty shape. They take no memory, so that only this limits them.
constexpr int64_t kMaxBesideEmpty = int64_t{1} << 28;

std::string DimsText(absl::Span<const int64_t> dims) {
  return absl::StrCat(
      "[",
      absl::StrJoin(dims, ",",
                    [](std::string* out, int64_t d) { absl::StrAppend(out, d == Shape::kUnknown ? "?" : absl::StrCat(d)); }),
      "]");
}

}  // namespace

Shape::Shape(const int64_t* begin, const int64_t* end) : ndim_(static_cast<int>(end - begin)) {
  std::copy(begin, end, dims_.begin());
}

Shape Shape::OfRank(int rank) {
  Shape shape;
  shape.ndim_ = rank;
  std::fill_n(shape.dims_.begin(), rank, kUnknown);
  return shape;
}

absl::StatusOr<Shape> Shape::FromDims(absl::Span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("shape has rank ", dims.size(), "; at most ", kMaxRank, " is supported"));
  }
  int64_t elements = 1;  // Without empty dimensions, so that no product of some of the dimensions overflows.
  for (int64_t d : dims) {
    if (d < kUnknown) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", DimsText(dims), " has dimension ", d, "; want 0 or more, or -1 for unknown"));
    }
  }
  for (int64_t d : dims) {
    if (d <= 1) continue;
    if (elements > kMaxElements / d) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", DimsText(dims), " has more than 2^48 elements"));
    }
    elements *= d;
  }
  if (elements > kMaxBesideEmpty && std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", DimsText(dims), " is empty, and its other dimensions' product is more than 2^28"));
  }
  return Shape(dims.data(), dims.data() + dims.size());
}

bool Shape::known() const {
  return ndim_ >= 0 && std::all_of(begin(), end(), [](int64_t d) { return d != kUnknown; });
}

int64_t Shape::Size(int first, int last) const {
  int64_t size = 1;
  for (int i = first; i < last; ++i) size *= dims_[i];
  return size;
}

std::string Shape::ToString() const { return ndim_ < 0 ? "?" : DimsText(dims()); }

bool operator==(const Shape& a, const Shape& b) { return a.ndim_ == b.ndim_ && std::equal(a.begin(), a.end(), b.begin()); }

bool ShapeAssign(Shape* to, const Shape& from) {
  if (!from.rank_known()) return true;
  if (!to->rank_known()) {
    *to = from;
    return true;
  }
  if (to->ndim() != from.ndim()) return false;
  for (int i = 0; i < from.ndim(); ++i) {
    if (from[i] == Shape::kUnknown) continue;
    if ((*to)[i] == Shape::kUnknown) {
      (*to)[i] = from[i];
    } else if ((*to)[i] != from[i]) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " is out of range for rank ", ndim, "; want ", -ndim, " to ", ndim - 1));
  }
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

absl::StatusOr<int64_t> CheckedBytes(const Shape& shape, int64_t element_bytes) {
  if (!shape.known()) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", shape.ToString(), " is not fully known"));
  }
  RETURN_IF_ERROR(Shape::FromDims(shape.dims()).status());
  return shape.Size() * element_bytes;
}

}  // namespace gluond
