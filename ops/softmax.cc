// softmax: y[i] = e^(x[i] / t) / sum_j e^(x[j] / t) along an axis; log_softmax, its logarithm; softmin, softmax of -x.
// With lengths, each row is its first elements only; the others become 0. SoftmaxActivation is softmax over each
// sample, or over the channels of each position.

#include <optional>

#include "ops/axes.h"
#include "ops/elements.h"
#include "ops/kernel/length.h"
#include "ops/kernel/softmax.h"
#include "ops/operator.h"

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
    s.Field("dtype", &SoftmaxParam::dtype)
        .Default("None")
        .Check(IsFloating, "want a floating-point type")
        .Describe("The type of y. Default: that of x.");
    s.Field("use_length", &SoftmaxParam::use_length)
        .Decides()
        .Default(false)
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
struct SoftmaxAlong {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& param = attrs.param<SoftmaxParam>();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(param.axis, out[0].shape.ndim()));
    const RowGeometry rows = RowsOf(out[0].shape, axis);
    const F f{sign / param.temperature.value_or(1)};
    if constexpr (inputs == 1) {
      if (param.use_length) {
        if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
        return DispatchReal(out[0].dtype, [&]<class C>(C) {
          return ForEachGroup<D>(ctx, rows.rows(), rows.n,
                                 PartOfRow<C, F>{f, rows, In<C>(in[0]), In<double>(in[1]), Out<C>(out[0], req[0])});
        });
      }
    }
    return Rows<D, inputs>(ctx, rows, f, in.data(), req[0], out[0]);
  }
};

uint32_t SoftmaxNumInputs(const NodeAttrs& attrs) { return attrs.param<SoftmaxParam>().use_length ? 2 : 1; }

absl::StatusOr<bool> SoftmaxShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& param = attrs.param<SoftmaxParam>();
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(param.axis, x.ndim()));
  if (param.use_length) SHAPE_ASSIGN_CHECK(in, 1, ReducedShape(x, 1u << axis, /*keepdims=*/false));
  return AllKnown(*in) && AllKnown(*out);
}

// The lengths may have any type; where nothing is said, they have x's.
absl::StatusOr<bool> SoftmaxType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const auto& param = attrs.param<SoftmaxParam>();
  if (param.dtype.has_value()) {
    TYPE_ASSIGN_CHECK(out, 0, *param.dtype);
  } else {
    RETURN_IF_ERROR(Alike(in, out));
  }
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  if (param.use_length && (*in)[1] == DType::kUnknown) (*in)[1] = (*in)[0];
  return AllKnown(*in);
}

NodeEntry SumAlong(const NodePtr& node, const NodeEntry& x) {
  return Call("sum", {x}, {{"axis", absl::StrCat(node->param<SoftmaxParam>().axis)}, {"keepdims", "True"}});
}
double Scale(const NodePtr& node) { return 1 / node->param<SoftmaxParam>().temperature.value_or(1); }

// The gradient comes in y's type, and goes back to x's where they differ. Beyond a row's length it is 0, whatever dy is.
struct SoftmaxGradient {
  const char* op;
  bool logarithm;
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    AttrDict dict = node->attrs.dict;
    dict.erase("use_length");
    const auto& param = node->param<SoftmaxParam>();
    Gradients dx(node->num_inputs());
    if (param.use_length) {
      const NodeEntry mask = Call("_length_mask", {dy[0], node->inputs[1]}, {{"axis", absl::StrCat(param.axis)}});
      const NodeEntry kept = Call("where", {mask, dy[0], Call("zeros_like", {dy[0]})});  // Padding may hold NaN.
      const NodeEntry probability = logarithm ? Call("exp", {Output(node)}) * mask : NodeEntry();
      dx[0] = logarithm ? (kept - Call("broadcast_mul", {probability, SumAlong(node, kept)})) * Scale(node)
                        : Call(op, {kept, Output(node)}, dict);
    } else {
      dx[0] = Call(op, {dy[0], Output(node)}, dict);
    }
    if (param.dtype.has_value()) dx[0] = Call("_cast_like", {dx[0], node->inputs[0]});
    return dx;
  }
};

// The gradients of the backward operators' inputs dy and y, from the gradient g of dx. softmax's Jacobian is symmetric.
struct SoftmaxGradientOfBackward {
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
      .params<SoftmaxParam>()                                                                         \
      .set_num_inputs(SoftmaxNumInputs)                                                               \
      .set_attr<FListInputNames>("FListInputNames", FirstNames({"data", "length"}, SoftmaxNumInputs)) \
      .infer(LikeFirst<SoftmaxShape>(), SoftmaxType)                                                  \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)                                       \
      .set_attr<FGradient>("FGradient", SoftmaxGradient{"_backward_" #name, logarithm})               \
      .compute<SoftmaxAlong<F, 1, sign>>()

SOFTMAX(softmax, "y[i] = exp(x[i] / temperature) / sum_j exp(x[j] / temperature) along an axis.", Softmax, 1, false);
SOFTMAX(softmin, "y[i] = exp(-x[i] / temperature) / sum_j exp(-x[j] / temperature) along an axis.", Softmax, -1, false);
SOFTMAX(log_softmax, "y[i] = x[i] / temperature - log(sum_j exp(x[j] / temperature)) along an axis.", LogSoftmax, 1, true);

#define BACKWARD_SOFTMAX(name, F, sign, gradient)                \
  GLUOND_REGISTER_OP(name)                                       \
      .describe("The gradient of x, from that of y and from y.") \
      .add_argument("out_grad", "NDArray", "dL/dy.")             \
      .add_argument("output", "NDArray", "y.")                   \
      .params<SoftmaxParam>()                                    \
      .set_num_inputs(2)                                         \
      .infer(SameShape, SameFloatType)                           \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceEither) \
      .set_attr<FGradient>("FGradient", gradient)                \
      .compute<SoftmaxAlong<F, 2, sign>>()

BACKWARD_SOFTMAX(_backward_softmax, BackwardSoftmax, 1, (SoftmaxGradientOfBackward{"_backward_softmax", 1}));
BACKWARD_SOFTMAX(_backward_softmin, BackwardSoftmax, -1, (SoftmaxGradientOfBackward{"_backward_softmin", -1}));
BACKWARD_SOFTMAX(_backward_log_softmax, BackwardLogSoftmax, 1, GradientOfBackwardLog);

// The mask that the gradient of log_softmax with lengths is multiplied by.
struct LengthMaskParam : Param<LengthMaskParam> {
  int axis;
  static void Fields(Schema<LengthMaskParam>& s) {
    s.Field("axis", &LengthMaskParam::axis).Default(-1).Describe("The axis that the lengths are along.");
  }
};

template <class C>
struct SoftmaxMaskElement {
  RowGeometry rows;
  In<double> length;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / (rows.n * rows.inner) * rows.inner + i % rows.inner, at = i / rows.inner % rows.n;
    y.Set(i, at < ToLength(length[row], rows.n) ? C(1) : C(0));
  }
};

struct LengthMask {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<LengthMaskParam>().axis, out[0].shape.ndim()));
    return ForEachReal<D>(ctx, req[0], out[0], [&]<class C>(Out<C> y) {
      return SoftmaxMaskElement<C>{RowsOf(out[0].shape, axis), In<double>(in[1]), y};
    });
  }
};

absl::StatusOr<bool> MaskShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<LengthMaskParam>().axis, x.ndim()));
  SHAPE_ASSIGN_CHECK(in, 1, ReducedShape(x, 1u << axis, /*keepdims=*/false));  // As softmax takes them.
  return AllKnown(*in) && AllKnown(*out);
}

GLUOND_REGISTER_OP(_length_mask)
    .describe("1 for the first `length` elements along an axis, else 0.")
    .add_argument("data", "NDArray", "For its shape and type only.")
    .add_argument("length", "NDArray", "The shape without the axis.")
    .params<LengthMaskParam>()
    .set_num_inputs(2)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<0>)
    .infer(MaskShape, TypesOfInputs<0>)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<LengthMask>();

enum SoftmaxMode { kOverInstance, kOverChannel };

struct SoftmaxActivationParam : Param<SoftmaxActivationParam> {
  int mode;
  static void Fields(Schema<SoftmaxActivationParam>& s) {
    s.Field("mode", &SoftmaxActivationParam::mode)
        .Enum({{"instance", kOverInstance}, {"channel", kOverChannel}})
        .Default("instance")
        .Describe("What sums to 1: all of a sample (instance), or the channels of each position (channel).");
  }
};

struct SoftmaxActivation {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Shape& x = in[0].shape;
    const bool channel = attrs.param<SoftmaxActivationParam>().mode == kOverChannel;
    const RowGeometry rows = channel ? RowsOf(x, 1) : RowGeometry{x[0], x.Size(1, x.ndim()), 1};
    return Rows<D, 1>(ctx, rows, Softmax{1}, in.data(), req[0], out[0]);
  }
};

absl::StatusOr<bool> ActivationShape(const NodeAttrs&, ShapeVector* in, ShapeVector*) {
  RETURN_IF_ERROR(CheckRank((*in)[0], 2));
  return AllKnown(*in);
}

Gradients ActivationGradient(const NodePtr& node, const Gradients& dy) {
  const NodeEntry y = Output(node);
  if (node->param<SoftmaxActivationParam>().mode == kOverChannel) {
    return {Call("_backward_softmax", {dy[0], y}, {{"axis", "1"}})};
  }
  return {Call("reshape_like", {Call("_backward_softmax", {Call("Flatten", {dy[0]}), Call("Flatten", {y})}), y})};
}

GLUOND_REGISTER_OP(SoftmaxActivation)
    .describe("softmax over each sample, or over the channels of each position.")
    .add_argument("data", "NDArray", "x: (batch, channels, ...).")
    .params<SoftmaxActivationParam>()
    .infer(LikeFirst<ActivationShape>(), SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", ActivationGradient)
    .compute<SoftmaxActivation>();

}  // namespace
}  // namespace gluond::ops
