// LinearRegressionOutput, MAERegressionOutput and LogisticRegressionOutput: y = x or sigmoid(x), with the gradient of a
// loss against the labels, whatever head gradient comes in: dx = grad_scale / outputs * (y - label), or its sign for
// MAE; `outputs` is how many numbers one sample has.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/math.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct RegressionParam : Param<RegressionParam> {
  double grad_scale;
  static void Fields(Schema<RegressionParam>& s) {
    s.Field("grad_scale", &RegressionParam::grad_scale).Default(1.0).Describe("Multiplies the gradient.");
  }
};

struct Sigmoid {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const { return math::Sigmoid(x); }
};

struct Difference {
  double scale;
  template <std::floating_point C>
  HOST_DEVICE C operator()(C y, C label) const { return static_cast<C>(scale) * (y - label); }
};
// As MXNet's, -1 where they are equal.
struct SignOfDifference {
  double scale;
  template <std::floating_point C>
  HOST_DEVICE C operator()(C y, C label) const { return static_cast<C>(y > label ? scale : -scale); }
};

// Labels have the shape of x, or as many elements for each sample; for x of shape (batch, 1) they are a vector.
absl::StatusOr<bool> InferShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  SHAPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  const Shape x = (*in)[0];
  if (!x.known()) return false;
  if (x.ndim() == 0) return absl::InvalidArgumentError("input 0 'data' is a scalar, expected rank 1 or more");
  if (!(*in)[1].known()) SHAPE_ASSIGN_CHECK(in, 1, x.ndim() == 2 && x[1] == 1 ? Shape({x[0]}) : x);
  const Shape label = (*in)[1];
  if (label.ndim() == 0 || label[0] != x[0] || label.Size() != x.Size()) {
    return absl::InvalidArgumentError(absl::StrCat("input 1 'label' has shape ", label.ToString(),
                                                   ", expected as many elements as input 0 'data', ", x.ToString(),
                                                   ", in as many samples"));
  }
  return true;
}

// The label may have any type; where nothing is said, that of x.
absl::StatusOr<bool> InferType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  TYPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  if ((*in)[1] == DType::kUnknown) (*in)[1] = (*in)[0];
  return AllKnown(*in);
}

template <class F>
struct BackwardRegression {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    if (out[0].Size() == 0) return absl::OkStatus();
    const double outputs = static_cast<double>(out[0].Size() / out[0].shape[0]);
    return Map<D, 2>(ctx, F{attrs.param<RegressionParam>().grad_scale / outputs}, in.data(), req[0], out[0]);
  }
};

#define REGRESSION(name, kernel, F, text, gradient)                                                              \
  GLUOND_REGISTER_OP(_backward_##name)                                                                           \
      .describe("dx = " gradient)                                                                                \
      .add_argument("output", "NDArray", "y.")                                                                   \
      .add_argument("label", "NDArray", "The labels.")                                                           \
      .add_arguments(RegressionParam::__FIELDS__())                                                              \
      .set_attr_parser(ParamParser<RegressionParam>)                                                             \
      .set_num_inputs(2)                                                                                         \
      .set_attr<FInferShape>("FInferShape", InferShape)                                                          \
      .set_attr<FInferType>("FInferType", InferType)                                                             \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)                                                  \
      .compute<BackwardRegression<F>>();                                                                         \
  GLUOND_REGISTER_OP(name)                                                                                       \
      .describe(text " Its gradient is that of a loss, whatever that of y is: " gradient)                        \
      .add_argument("data", "NDArray", "x: (batch, ...).")                                                       \
      .add_argument("label", "NDArray", "As many elements as x, of any type.")                                   \
      .add_arguments(RegressionParam::__FIELDS__())                                                              \
      .set_attr_parser(ParamParser<RegressionParam>)                                                             \
      .set_num_inputs(2)                                                                                         \
      .set_attr<FInferShape>("FInferShape", InferShape)                                                          \
      .set_attr<FInferType>("FInferType", InferType)                                                             \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)                                                  \
      .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)                                                       \
      .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)                                        \
      .set_attr<FGradient>("FGradient",                                                                          \
                           [](const NodePtr& node, const Gradients&) -> Gradients {                              \
                             return {Call("_backward_" #name, {Output(node), node->inputs[1]}, node->attrs.dict), {}}; \
                           })                                                                                    \
      .compute<kernel>()

REGRESSION(LinearRegressionOutput, CopyFirst, Difference, "y = x.", "grad_scale / outputs (y - label).");
REGRESSION(MAERegressionOutput, CopyFirst, SignOfDifference, "y = x.", "grad_scale / outputs sign(y - label).");
REGRESSION(LogisticRegressionOutput, Unary<Sigmoid>, Difference, "y = sigmoid(x).",
           "grad_scale / outputs (y - label).");

}  // namespace
}  // namespace gluond::ops
