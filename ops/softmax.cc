// softmax: y[i] = e^(x[i] / t) / sum_j e^(x[j] / t) along an axis; log_softmax, its logarithm; softmin, softmax of -x.
// The axis' maximum is subtracted first, so that nothing overflows.

#include <optional>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct SoftmaxParam : Param<SoftmaxParam> {
  int axis;
  std::optional<double> temperature;
  std::optional<DType> dtype;
  bool use_length;

  static void Fields(Schema<SoftmaxParam>& s) {
    s.Field("axis", &SoftmaxParam::axis).Default(-1).Describe("The axis that sums to 1.");
    s.Field("temperature", &SoftmaxParam::temperature).Default("None").Above(0.0).Describe("Divides x. Default: 1.");
    s.Field("dtype", &SoftmaxParam::dtype).Default("None").Check(IsFloating, "want a floating-point type")
        .Describe("The type of y. Default: that of x.");
    s.Field("use_length", &SoftmaxParam::use_length).Default(false)
        .Check([](bool v) { return !v; }, "want False; mask x instead, with -inf")
        .Describe("Accepted for MXNet's sake; lengths are not offered.");
  }
};

struct Softmax {
  double scale;
  template <class Group, class X, class Y>
  HOST_DEVICE void operator()(Group g, X x, Y y, int64_t n) const {
    using C = std::decay_t<decltype(x[0])>;
    const C s = static_cast<C>(scale);
    const C max = g.Max(n, [&](int64_t i) { return s * x[i]; });
    const C sum = g.Sum(n, [&](int64_t i) { return math::Exp(s * x[i] - max); });
    g.ForEach(n, [&](int64_t i) { y.Set(i, math::Exp(s * x[i] - max) / sum); });
  }
};
struct LogSoftmax {
  double scale;
  template <class Group, class X, class Y>
  HOST_DEVICE void operator()(Group g, X x, Y y, int64_t n) const {
    using C = std::decay_t<decltype(x[0])>;
    const C s = static_cast<C>(scale);
    const C max = g.Max(n, [&](int64_t i) { return s * x[i]; });
    const C log_sum = math::Log(g.Sum(n, [&](int64_t i) { return math::Exp(s * x[i] - max); }));
    g.ForEach(n, [&](int64_t i) { y.Set(i, s * x[i] - max - log_sum); });
  }
};

// dx = y (dy - sum_j y[j] dy[j]) / t.
struct BackwardSoftmax {
  double scale;
  template <class Group, class DY, class Y, class DX>
  HOST_DEVICE void operator()(Group g, DY dy, Y y, DX dx, int64_t n) const {
    using C = std::decay_t<decltype(y[0])>;
    const C s = static_cast<C>(scale);
    const C sum = g.Sum(n, [&](int64_t i) { return y[i] * dy[i]; });
    g.ForEach(n, [&](int64_t i) { dx.Set(i, s * y[i] * (dy[i] - sum)); });
  }
};
// dx = (dy - e^y sum_j dy[j]) / t.
struct BackwardLogSoftmax {
  double scale;
  template <class Group, class DY, class Y, class DX>
  HOST_DEVICE void operator()(Group g, DY dy, Y y, DX dx, int64_t n) const {
    using C = std::decay_t<decltype(y[0])>;
    const C s = static_cast<C>(scale);
    const C sum = g.Sum(n, [&](int64_t i) { return dy[i]; });
    g.ForEach(n, [&](int64_t i) { dx.Set(i, s * (dy[i] - math::Exp(y[i]) * sum)); });
  }
};

template <class F, int inputs, int sign>
struct Along {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const auto& param = attrs.param<SoftmaxParam>();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(param.axis, out[0].shape.ndim()));
    return Rows<D, inputs>(ctx, RowsOf(out[0].shape, axis), F{sign / param.temperature.value_or(1)}, in.data(), req[0],
                           out[0]);
  }
};

absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ASSIGN_OR_RETURN(const bool known, SameShape(attrs, in, out));
  if ((*out)[0].rank_known()) {
    RETURN_IF_ERROR(NormalizeAxis(attrs.param<SoftmaxParam>().axis, (*out)[0].ndim()).status());
  }
  return known;
}

absl::StatusOr<bool> InferType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const auto& param = attrs.param<SoftmaxParam>();
  if (!param.dtype.has_value()) return SameFloatType(attrs, in, out);
  TYPE_ASSIGN_CHECK(out, 0, *param.dtype);
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  return AllKnown(*in);
}

// The gradient comes in y's type, and goes back to x's where they differ.
struct Gradient {
  const char* op;
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    const NodeEntry dx = Call(op, {dy[0], Output(node)}, node->attrs.dict);
    if (!node->param<SoftmaxParam>().dtype.has_value()) return {dx};
    return {Call("_cast_like", {dx, node->inputs[0]})};
  }
};

NodeEntry SumAlong(const NodePtr& node, const NodeEntry& x) {
  return Call("sum", {x}, {{"axis", absl::StrCat(node->param<SoftmaxParam>().axis)}, {"keepdims", "True"}});
}
double Scale(const NodePtr& node) { return 1 / node->param<SoftmaxParam>().temperature.value_or(1); }

// Of the backward operators' inputs dy and y, from the gradient g of dx. softmax's Jacobian is symmetric.
struct GradientOfBackward {
  const char* op;
  double sign;
  Gradients operator()(const NodePtr& node, const Gradients& g) const {
    const NodeEntry &dy = node->inputs[0], &y = node->inputs[1];
    const NodeEntry from_dy = g[0] * Call("broadcast_sub", {dy, SumAlong(node, y * dy)});
    const NodeEntry from_sum = Call("broadcast_mul", {dy, SumAlong(node, y * g[0])});
    return {Call(op, {g[0], y}, node->attrs.dict), (from_dy - from_sum) * (sign * Scale(node))};
  }
};
Gradients GradientOfBackwardLog(const NodePtr& node, const Gradients& g) {
  const NodeEntry &dy = node->inputs[0], &y = node->inputs[1];
  const NodeEntry weighted = g[0] * Call("exp", {y});
  return {Call("broadcast_sub", {g[0], SumAlong(node, weighted)}) * Scale(node),
          Call("broadcast_mul", {weighted, SumAlong(node, dy)}) * -Scale(node)};
}

#define SOFTMAX(name, text, F, sign)                                   \
  GLUOND_REGISTER_OP(name)                                             \
      .describe(text)                                                  \
      .add_argument("data", "NDArray", "x: rank 1 or more.")           \
      .add_arguments(SoftmaxParam::__FIELDS__())                       \
      .set_attr_parser(ParamParser<SoftmaxParam>)                      \
      .set_attr<FInferShape>("FInferShape", InferShape)                \
      .set_attr<FInferType>("FInferType", InferType)                   \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)        \
      .set_attr<FGradient>("FGradient", Gradient{"_backward_" #name})  \
      .compute<Along<F, 1, sign>>()

SOFTMAX(softmax, "y[i] = exp(x[i] / temperature) / sum_j exp(x[j] / temperature) along an axis.", Softmax, 1);
SOFTMAX(softmin, "y[i] = exp(-x[i] / temperature) / sum_j exp(-x[j] / temperature) along an axis.", Softmax, -1);
SOFTMAX(log_softmax, "y[i] = x[i] / temperature - log(sum_j exp(x[j] / temperature)) along an axis.", LogSoftmax, 1);

#define BACKWARD_SOFTMAX(name, F, sign, gradient)                     \
  GLUOND_REGISTER_OP(name)                                            \
      .describe("The gradient of x, from that of y and from y.")      \
      .add_argument("out_grad", "NDArray", "dL/dy.")                  \
      .add_argument("output", "NDArray", "y.")                        \
      .add_arguments(SoftmaxParam::__FIELDS__())                      \
      .set_attr_parser(ParamParser<SoftmaxParam>)                     \
      .set_num_inputs(2)                                              \
      .set_attr<FInferShape>("FInferShape", InferShape)               \
      .set_attr<FInferType>("FInferType", SameFloatType)              \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)      \
      .set_attr<FGradient>("FGradient", gradient)                     \
      .compute<Along<F, 2, sign>>()

BACKWARD_SOFTMAX(_backward_softmax, BackwardSoftmax, 1, (GradientOfBackward{"_backward_softmax", 1}));
BACKWARD_SOFTMAX(_backward_softmin, BackwardSoftmax, -1, (GradientOfBackward{"_backward_softmin", -1}));
BACKWARD_SOFTMAX(_backward_log_softmax, BackwardLogSoftmax, 1, GradientOfBackwardLog);

}  // namespace
}  // namespace gluond::ops
