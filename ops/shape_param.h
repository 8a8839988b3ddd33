// The `shape`, `ctx` and `dtype` parameters of operators that make tensors from nothing, and the facts of those that
// draw random numbers.

#ifndef OPS_SHAPE_PARAM_H_
#define OPS_SHAPE_PARAM_H_

#include <optional>
#include <string>
#include <vector>

#include "engine/core/param.h"
#include "engine/core/shape.h"
#include "ops/operator.h"

namespace gluond::ops {

template <class P>
void ShapeFields(Schema<P>& s) {
  s.Field("shape", &P::shape)
      .Default(std::vector<int64_t>())
      .Describe("The shape of y; (): what its consumers need.")
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

// Parameter `shape` of samples is the shape of the block for each element of a parameter.
template <class P>
void BlockField(Schema<P>& s) {
  s.Field("shape", &P::shape)
      .Default(std::vector<int64_t>())
      .Elements(int64_t{0}, int64_t{1} << 48)
      .Describe("The shape of the numbers for each parameter; (): one.");
}
// The shape `each`, followed by the block's axes.
inline absl::StatusOr<Shape> BlocksOf(const Shape& each, const std::vector<int64_t>& block) {
  std::vector<int64_t> dims(each.begin(), each.end());
  dims.insert(dims.end(), block.begin(), block.end());
  return Shape::FromDims(dims);
}

template <class P>
void FloatDtypeField(Schema<P>& s) {
  s.Field("dtype", &P::dtype)
      .Default(std::nullopt)
      .Describe("The type of y, floating point; None: float32, or that of its parameters.")
      .Check(IsFloating, "want float16, bfloat16, float32 or float64");
}
template <class P>
absl::StatusOr<bool> FloatTypeOfParam(const NodeAttrs& attrs, TypeVector*, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 0, attrs.param<P>().dtype.value_or(DType::kFloat32));
  return true;
}

// The parameters a and b of a distribution, which tells their fields: `template <class P> static void
// Fields(Schema<P>& s)`.
struct Two {
  double a, b;
};
template <class Distribution>
struct RandomParam : Param<RandomParam<Distribution>>, Two {
  std::vector<int64_t> shape;
  std::string ctx;
  std::optional<DType> dtype;
  static void Fields(Schema<RandomParam>& s) { Distribution::Fields(s), ShapeFields(s), FloatDtypeField(s); }
};
template <class Distribution>
struct LikeParam : Param<LikeParam<Distribution>>, Two {
  static void Fields(Schema<LikeParam>& s) { Distribution::Fields(s); }
};

// The facts of an operator that makes a tensor from parameters P, and of one that takes the shape and type of a tensor.
template <class P>
void RandomFacts(OpRegistration& op) {
  op.params<P>().infer(ShapeOfParam<P>, FloatTypeOfParam<P>);
  op.set_num_inputs(0).set_attr<FResourceRequest>("FResourceRequest", Random).set_attr<FGradient>("FGradient", NoGradient);
}
template <class P>
void RandomLikeFacts(OpRegistration& op) {
  op.add_argument("data", "NDArray", "Only its shape and type are used.").params<P>();
  op.infer(ElemwiseShape<1, 1>, SameFloatType)
      .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<0>)
      .set_attr<FResourceRequest>("FResourceRequest", Random)
      .set_attr<FGradient>("FGradient", NoGradient);
}

}  // namespace gluond::ops

#endif  // OPS_SHAPE_PARAM_H_
