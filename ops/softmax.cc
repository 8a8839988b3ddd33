// softmax: y[i] = e^(x[i] / t) / sum_j e^(x[j] / t) along an axis; log_softmax, its logarithm; softmin, softmax of -x.
// With lengths, each row is its first elements only; the others become 0.

#include <optional>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/length.h"
#include "ops/kernel/softmax.h"
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
        .Describe("Take only as much of each row as `length` says; the rest of y is 0.");
  }
};

// F over the first elements of each row; the rest of y is 0.
template <class C, class F>
struct PartOfRow {
  F f;
  RowGeometry rows;
  In<C> x;
  In<double> length;
  Out<C> y;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t begin = rows.begin(row), n = ToLength(length[row], rows.n);
    const rows_internal::RowOut<C> out = {y, begin, rows.inner};
    f(g, rows_internal::RowIn<C>{x, begin, rows.inner}, out, n);
    g.ForEach(rows.n - n, [&](int64_t i) { out.Set(n + i, C(0)); });
  }
};

template <class F, int inputs, int sign>
struct Along {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const auto& param = attrs.param<SoftmaxParam>();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(param.axis, out[0].shape.ndim()));
    const RowGeometry rows = RowsOf(out[0].shape, axis);
    const F f{sign / param.temperature.value_or(1)};
    if constexpr (inputs == 1) {
      if (param.use_length) {
        if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
        return DispatchReal(out[0].dtype, [&](auto c) {
          using C = decltype(c);
          return ForEachGroup<D>(
              ctx, rows.rows(), rows.n,
              PartOfRow<C, F>{f, rows, In<C>(in[0]), In<double>(in[1]), Out<C>(out[0], req[0])});
        });
      }
    }
    return Rows<D, inputs>(ctx, rows, f, in.data(), req[0], out[0]);
  }
};

uint32_t NumInputs(const NodeAttrs& attrs) { return attrs.param<SoftmaxParam>().use_length ? 2 : 1; }

// The shape of x without the axis: one element for each row.
Shape RowsShape(const Shape& x, int axis) {
  Shape rows = Shape::Scalar();
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != axis) rows.Append(x[i]);
  }
  return rows;
}

absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  SHAPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  const auto& param = attrs.param<SoftmaxParam>();
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(param.axis, x.ndim()));
  if (param.use_length) {
    // MXNet has no scalars: the length of a vector has shape (1).
    SHAPE_ASSIGN_CHECK(in, 1, x.ndim() == 1 ? Shape({1}) : RowsShape(x, axis));
  }
  return AllKnown(*in) && AllKnown(*out);
}

// The lengths may have any type; where nothing is said, that of x.
absl::StatusOr<bool> InferType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const auto& param = attrs.param<SoftmaxParam>();
  if (param.dtype.has_value()) {
    TYPE_ASSIGN_CHECK(out, 0, *param.dtype);
  } else {
    TYPE_ASSIGN_CHECK(out, 0, (*in)[0]);
    TYPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  }
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  if (param.use_length && (*in)[1] == DType::kUnknown) (*in)[1] = (*in)[0];
  return AllKnown(*in);
}

NodeEntry SumAlong(const NodePtr& node, const NodeEntry& x) {
  return Call("sum", {x}, {{"axis", absl::StrCat(node->param<SoftmaxParam>().axis)}, {"keepdims", "True"}});
}
double Scale(const NodePtr& node) { return 1 / node->param<SoftmaxParam>().temperature.value_or(1); }

// The gradient comes in y's type, and goes back to x's where they differ. Where y is 0 beyond a row's length, so is
// softmax's gradient; log_softmax is told by a mask.
struct Gradient {
  const char* op;
  bool logarithm;
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    AttrDict dict = node->attrs.dict;
    dict.erase("use_length");
    const auto& param = node->param<SoftmaxParam>();
    Gradients dx(node->num_inputs());
    if (param.use_length && logarithm) {
      const NodeEntry mask = Call("_length_mask", {dy[0], node->inputs[1]}, {{"axis", absl::StrCat(param.axis)}});
      const NodeEntry probability = Call("exp", {Output(node)}) * mask, masked = dy[0] * mask;
      dx[0] = (masked - Call("broadcast_mul", {probability, SumAlong(node, masked)})) * Scale(node);
    } else {
      dx[0] = Call(op, {dy[0], Output(node)}, dict);
    }
    if (param.dtype.has_value()) dx[0] = Call("_cast_like", {dx[0], node->inputs[0]});
    return dx;
  }
};

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

#define SOFTMAX(name, text, F, sign, logarithm)                                                       \
  GLUOND_REGISTER_OP(name)                                                                            \
      .describe(text)                                                                                 \
      .add_argument("data", "NDArray", "x: rank 1 or more.")                                          \
      .add_argument("length", "NDArray", "x's shape without the axis, any type; with use_length.")    \
      .add_arguments(SoftmaxParam::__FIELDS__())                                                      \
      .set_attr_parser(ParamParser<SoftmaxParam>)                                                     \
      .set_num_inputs(NumInputs)                                                                      \
      .set_attr<FListInputNames>("FListInputNames", [](const NodeAttrs& attrs) {                      \
        std::vector<std::string> names = {"data", "length"};                                          \
        names.resize(NumInputs(attrs));                                                               \
        return names;                                                                                 \
      })                                                                                              \
      .set_attr<FInferShape>("FInferShape", InferShape)                                               \
      .set_attr<FInferType>("FInferType", InferType)                                                  \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)                                       \
      .set_attr<FGradient>("FGradient", Gradient{"_backward_" #name, logarithm})                      \
      .compute<Along<F, 1, sign>>()

SOFTMAX(softmax, "y[i] = exp(x[i] / temperature) / sum_j exp(x[j] / temperature) along an axis.", Softmax, 1, false);
SOFTMAX(softmin, "y[i] = exp(-x[i] / temperature) / sum_j exp(-x[j] / temperature) along an axis.", Softmax, -1,
        false);
SOFTMAX(log_softmax, "y[i] = x[i] / temperature - log(sum_j exp(x[j] / temperature)) along an axis.", LogSoftmax, 1,
        true);

#define BACKWARD_SOFTMAX(name, F, sign, gradient)                     \
  GLUOND_REGISTER_OP(name)                                            \
      .describe("The gradient of x, from that of y and from y.")      \
      .add_argument("out_grad", "NDArray", "dL/dy.")                  \
      .add_argument("output", "NDArray", "y.")                        \
      .add_arguments(SoftmaxParam::__FIELDS__())                      \
      .set_attr_parser(ParamParser<SoftmaxParam>)                     \
      .set_num_inputs(2)                                              \
      .set_attr<FInferShape>("FInferShape", SameShape)                \
      .set_attr<FInferType>("FInferType", SameFloatType)              \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)      \
      .set_attr<FGradient>("FGradient", gradient)                     \
      .compute<Along<F, 2, sign>>()

BACKWARD_SOFTMAX(_backward_softmax, BackwardSoftmax, 1, (GradientOfBackward{"_backward_softmax", 1}));
BACKWARD_SOFTMAX(_backward_softmin, BackwardSoftmax, -1, (GradientOfBackward{"_backward_softmin", -1}));
BACKWARD_SOFTMAX(_backward_log_softmax, BackwardLogSoftmax, 1, GradientOfBackwardLog);

}  // namespace
}  // namespace gluond::ops
