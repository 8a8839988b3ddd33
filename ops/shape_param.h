// The `shape`, `ctx` and `dtype` parameters of operators that make tensors from nothing.

#ifndef OPS_SHAPE_PARAM_H_
#define OPS_SHAPE_PARAM_H_

#include <vector>

#include "engine/core/elementwise.h"
#include "engine/core/param.h"
#include "engine/core/shape.h"

namespace gluond::ops {

template <class P>
void ShapeFields(Schema<P>& s) {
  s.Field("shape", &P::shape).Default(std::vector<int64_t>()).Describe("The shape of y; (): what its consumers need.")
      .Check([](const std::vector<int64_t>& dims) { return Shape::FromDims(dims).ok(); },
             absl::StrCat("want at most ", Shape::kMaxRank, " sizes, each 0 or more (-1: unknown), and at most 2^48 elements"));
  s.Field("ctx", &P::ctx).Default("").Describe("Ignored: the graph's device is used.");
}

template <class P>
absl::StatusOr<bool> ShapeOfParam(const NodeAttrs& attrs, ShapeVector*, ShapeVector* out) {
  const std::vector<int64_t>& dims = attrs.param<P>().shape;
  if (!dims.empty()) {
    ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    SHAPE_ASSIGN_CHECK(out, 0, shape);
  }
  return AllKnown(*out);
}

// `shape` of samples: that of the block for each element of a parameter.
template <class P>
void BlockField(Schema<P>& s) {
  s.Field("shape", &P::shape).Default(std::vector<int64_t>()).Elements(int64_t{0}, int64_t{1} << 48)
      .Describe("The shape of the numbers for each parameter; (): one.");
}
// `each`, with an axis for each of the block's behind it.
inline absl::StatusOr<Shape> BlocksOf(const Shape& each, const std::vector<int64_t>& block) {
  std::vector<int64_t> dims(each.begin(), each.end());
  dims.insert(dims.end(), block.begin(), block.end());
  return Shape::FromDims(dims);
}

template <class P>
void FloatDtypeField(Schema<P>& s) {
  s.Field("dtype", &P::dtype).Default(std::nullopt)
      .Describe("The type of y, floating point; None: float32, or that of its parameters.")
      .Check(IsFloating, "want float16, bfloat16, float32 or float64");
}
template <class P>
absl::StatusOr<bool> FloatTypeOfParam(const NodeAttrs& attrs, TypeVector*, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 0, attrs.param<P>().dtype.value_or(DType::kFloat32));
  return true;
}

}  // namespace gluond::ops

#endif  // OPS_SHAPE_PARAM_H_
