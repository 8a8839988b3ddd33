// Shape is the size of each axis of a tensor, as in MXNet 1.x. The rank may be unknown, and so may single
// dimensions: inference fills them in from the inputs or from the outputs. Rank 0 is a scalar. No heap
// memory.
//
//   Shape image = {64, -1, 28, 28};        // The channels are not known yet.
//   Shape anything;                        // The rank is not known yet.
//   ASSIGN_OR_RETURN(Shape s, Shape::FromDims(dims_from_the_wire));

#ifndef ENGINE_CORE_SHAPE_H_
#define ENGINE_CORE_SHAPE_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gluond {

class Shape {
 public:
  static constexpr int kMaxRank = 8;
  static constexpr int64_t kUnknown = -1;

  // Unknown rank.
  Shape() = default;
  // Requires: at most kMaxRank dimensions, each >= -1. For sizes from outside use FromDims.
  Shape(std::initializer_list<int64_t> dims) : Shape(dims.begin(), dims.end()) {}
  Shape(const int64_t* begin, const int64_t* end);

  static Shape Scalar() { return Shape(nullptr, nullptr); }
  // `rank` unknown dimensions.
  static Shape OfRank(int rank);
  // INVALID_ARGUMENT: rank over kMaxRank, a dimension below -1, more than 2^48 elements, an empty dimension beside
  // others with a product of more than 2^28.
  static absl::StatusOr<Shape> FromDims(absl::Span<const int64_t> dims);

  int ndim() const { return ndim_; }  // -1 when unknown.
  bool rank_known() const { return ndim_ >= 0; }
  // True when the rank and every dimension are known.
  bool known() const;

  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t& operator[](int axis) { return dims_[axis]; }
  int64_t back() const { return dims_[ndim_ - 1]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + (ndim_ < 0 ? 0 : ndim_); }
  absl::Span<const int64_t> dims() const { return {begin(), static_cast<size_t>(end() - begin())}; }

  // The number of elements; requires known(). The product over axes [first, last) in the second form.
  int64_t Size() const { return Size(0, ndim_); }
  int64_t Size(int first, int last) const;

  // Requires: ndim() < kMaxRank.
  void Append(int64_t dim) { dims_[ndim_++] = dim; }

  // "[2,3]"; "?" stands for an unknown rank or dimension.
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b);
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }
  template <class H>
  friend H AbslHashValue(H h, const Shape& s) {
    return H::combine(H::combine_contiguous(std::move(h), s.begin(), s.end() - s.begin()), s.ndim_);
  }
  friend std::ostream& operator<<(std::ostream& os, const Shape& s) { return os << s.ToString(); }

 private:
  int ndim_ = -1;
  std::array<int64_t, kMaxRank> dims_ = {};
};

using ShapeVector = std::vector<Shape>;

// Merges the known part of `from` into `to`. False: they contradict each other.
bool ShapeAssign(Shape* to, const Shape& from);

// Maps an axis in [-ndim, ndim) to [0, ndim). INVALID_ARGUMENT otherwise.
absl::StatusOr<int> NormalizeAxis(int64_t axis, int ndim);

// The bytes of a tensor of known shape. INVALID_ARGUMENT as FromDims: to be checked before anything is allocated.
absl::StatusOr<int64_t> CheckedBytes(const Shape& shape, int64_t element_bytes);

}  // namespace gluond

#endif  // ENGINE_CORE_SHAPE_H_
