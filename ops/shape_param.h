// The `shape` and `ctx` parameters of operators that make tensors from nothing.

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

}  // namespace gluond::ops

#endif  // OPS_SHAPE_PARAM_H_
