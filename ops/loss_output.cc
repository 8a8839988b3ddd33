// Operators whose gradient is that of a loss, whatever head gradient comes in: LinearRegressionOutput,
// MAERegressionOutput, LogisticRegressionOutput, SVMOutput and MakeLoss.

#include "ops/kernel/copy.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/labels.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/stage.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

// FGradient from y and the labels, whatever the head gradient is.
struct LossGradient {
  const char* op;
  Gradients operator()(const NodePtr& node, const Gradients&) const {
    return {Call(op, {Output(node), node->inputs[1]}, node->attrs.dict), {}};
  }
};

// The regressions: y = x or sigmoid(x), and dx = grad_scale / outputs * (y - label), or its sign for MAE; `outputs` is
// how many numbers one sample has.
struct RegressionParam : Param<RegressionParam> {
  double grad_scale;
  static void Fields(Schema<RegressionParam>& s) {
    s.Field("grad_scale", &RegressionParam::grad_scale).Default(1.0).Describe("Multiplies the gradient.");
  }
};

struct LossOutputSigmoid {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const {
    return math::Sigmoid(x);
  }
};

struct Difference {
  double scale;
  template <std::floating_point C>
  HOST_DEVICE C operator()(C y, C label) const {
    return static_cast<C>(scale) * (y - label);
  }
};
// As MXNet's, -1 where they are equal.
struct SignOfDifference {
  double scale;
  template <std::floating_point C>
  HOST_DEVICE C operator()(C y, C label) const {
    return static_cast<C>(y > label ? scale : -scale);
  }
};

// Labels have the shape of x, or as many elements for each sample; for x of shape (batch, 1) they are a vector.
absl::StatusOr<bool> RegressionShape(const NodeAttrs&, ShapeVector* in, ShapeVector*) {
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

template <class F>
struct BackwardRegression {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (out[0].Size() == 0) return absl::OkStatus();
    const double outputs = static_cast<double>(out[0].Size() / out[0].shape[0]);
    return Map<D, 2>(ctx, F{attrs.param<RegressionParam>().grad_scale / outputs}, in.data(), req[0], out[0]);
  }
};

#define REGRESSION(name, kernel, F, text, gradient)                                       \
  GLUOND_REGISTER_OP(_backward_##name)                                                    \
      .describe("dx = " gradient)                                                         \
      .add_argument("output", "NDArray", "y.")                                            \
      .add_argument("label", "NDArray", "The labels.")                                    \
      .params<RegressionParam>()                                                          \
      .set_num_inputs(2)                                                                  \
      .infer(LikeFirst<RegressionShape>(), LabelledType)                                  \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)                           \
      .compute<BackwardRegression<F>>();                                                  \
  GLUOND_REGISTER_OP(name)                                                                \
      .describe(text " Its gradient is that of a loss, whatever that of y is: " gradient) \
      .add_argument("data", "NDArray", "x: (batch, ...).")                                \
      .add_argument("label", "NDArray", "As many elements as x, of any type.")            \
      .params<RegressionParam>()                                                          \
      .set_num_inputs(2)                                                                  \
      .infer(LikeFirst<RegressionShape>(), LabelledType)                                  \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)                           \
      .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)                                \
      .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)                 \
      .set_attr<FGradient>("FGradient", LossGradient{"_backward_" #name})                 \
      .compute<kernel>()

REGRESSION(LinearRegressionOutput, CopyFirst, Difference, "y = x.", "grad_scale / outputs (y - label).");
REGRESSION(MAERegressionOutput, CopyFirst, SignOfDifference, "y = x.", "grad_scale / outputs sign(y - label).");
REGRESSION(LogisticRegressionOutput, Unary<LossOutputSigmoid>, Difference, "y = sigmoid(x).", "grad_scale / outputs (y - label).");

// SVMOutput: y = x, with the gradient of the one-against-all hinge loss with the labels, whatever head gradient comes
// in. Let s be x for the label's class and -x for the others, and C the regularization coefficient. The loss is C
// max(0, margin - s) (use_linear) or C max(0, margin - s)^2.
struct SVMOutputParam : Param<SVMOutputParam> {
  double margin, regularization_coefficient;
  bool use_linear;
  static void Fields(Schema<SVMOutputParam>& s) {
    s.Field("margin", &SVMOutputParam::margin).Default(1.0).Describe("What a score should exceed.");
    s.Field("regularization_coefficient", &SVMOutputParam::regularization_coefficient)
        .Default(1.0)
        .Describe("Multiplies the gradient.");
    s.Field("use_linear", &SVMOutputParam::use_linear)
        .Default(false)
        .Describe("The loss is the distance to the margin; otherwise its square.");
  }
};

template <class C>
struct HingeGradient {
  RowGeometry rows;
  Labels labels;
  In<C> y;
  Out<C> dx;
  C margin, scale;
  bool linear;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t label = labels[row], begin = rows.begin(row);
    g.ForEach(rows.n, [&](int64_t j) {
      const C sign = j == label ? C(1) : C(-1), missing = margin - sign * y[begin + j];
      const C slope = missing > 0 ? -sign * scale * (linear ? C(1) : 2 * missing) : C(0);
      dx.Set(begin + j, label == Labels::kNoClass ? std::numeric_limits<C>::quiet_NaN() : slope);
    });
  }
};

struct BackwardSVMOutput {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const auto& p = attrs.param<SVMOutputParam>();
    const RowGeometry rows = RowsOf(in[0].shape, in[0].shape.ndim() - 1);
    const Labels labels = {In<double>(in[1]), rows.n};
    RETURN_IF_ERROR(CheckLabels<D>(labels, rows.rows()));
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      return ForEachGroup<D>(ctx, rows.rows(), rows.n,
                             HingeGradient<C>{rows, labels, In<C>(in[0]), Out<C>(out[0], req[0]), static_cast<C>(p.margin),
                                              static_cast<C>(p.regularization_coefficient), p.use_linear});
    });
  }
};

// A label for each row along the last axis.
absl::StatusOr<bool> HingeShape(const NodeAttrs&, ShapeVector* in, ShapeVector*) {
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  RETURN_IF_ERROR(CheckRank(x, 2));
  SHAPE_ASSIGN_CHECK(in, 1, Shape(x.begin(), x.end() - 1));
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(SVMOutput)
    .describe(
        "y = x. Its gradient is that of the one-against-all hinge loss with the labels, whatever that of y is. A "
        "label that is no class is an error on a CPU; on a GPU its row's gradient is NaN.")
    .add_argument("data", "NDArray", "x: (batch, classes).")
    .add_argument("label", "NDArray", "The class of each row, of any type.")
    .params<SVMOutputParam>()
    .set_num_inputs(2)
    .infer(LikeFirst<HingeShape>(), LabelledType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)
    .set_attr<FGradient>("FGradient", LossGradient{"_backward_SVMOutput"})
    .compute<CopyFirst>();

GLUOND_REGISTER_OP(_backward_SVMOutput)
    .describe("The gradient of SVMOutput's data.")
    .add_argument("output", "NDArray", "y.")
    .add_argument("label", "NDArray", "The class of each row.")
    .params<SVMOutputParam>()
    .set_num_inputs(2)
    .infer(LikeFirst<HingeShape>(), LabelledType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .compute<BackwardSVMOutput>();

// MakeLoss: y = x, as a loss: dx = grad_scale / normalization, whatever head gradient comes in.
enum LossOutputNormalization { kNull, kBatch, kValid };

struct MakeLossParam : Param<MakeLossParam> {
  double grad_scale, valid_thresh;
  int normalization;
  static void Fields(Schema<MakeLossParam>& s) {
    s.Field("grad_scale", &MakeLossParam::grad_scale).Default(1.0).Describe("The gradient.");
    s.Field("valid_thresh", &MakeLossParam::valid_thresh)
        .Default(0.0)
        .Describe("With normalization valid, elements above it count.");
    s.Field("normalization", &MakeLossParam::normalization)
        .Enum({{"null", kNull}, {"batch", kBatch}, {"valid", kValid}})
        .Default("null")
        .Describe(
            "Divide the gradient by nothing, by the size of axis 0 (batch), or by the number of elements above "
            "valid_thresh, 1 at least (valid).");
  }
};

template <class C>
struct LossOutputCountValid {
  int64_t n;
  In<C> x;
  C threshold;
  C* count;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t) const {
    const C valid = g.Sum(n, [&](int64_t i) { return x[i] > threshold ? C(1) : C(0); });
    if (g.first()) *count = valid > 1 ? valid : C(1);
  }
};
template <class C>
struct Quotient {
  C scale;
  const C* count;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const { dx.Set(i, scale / *count); }
};

struct BackwardMakeLoss {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<MakeLossParam>();
    const TBlob& dx = out[0];
    if (req[0] == kNullOp || dx.Size() == 0) return absl::OkStatus();
    if (p.normalization != kValid) {
      const bool divide = p.normalization == kBatch && dx.shape.ndim() > 0;
      return Fill<D>(ctx, divide ? p.grad_scale / static_cast<double>(dx.shape[0]) : p.grad_scale, req[0], dx);
    }
    // In double, so that large counts are exact.
    ASSIGN_OR_RETURN(double* count, Space<double>(ctx, 1));
    RETURN_IF_ERROR(
        ForEachGroup<D>(ctx, 1, dx.Size(), LossOutputCountValid<double>{dx.Size(), In<double>(in[0]), p.valid_thresh, count}));
    return ForEach<D>(ctx, dx.Size(), Quotient<double>{p.grad_scale, count, Out<double>(dx, req[0])});
  }
};

GLUOND_REGISTER_OP(MakeLoss)
    .describe("y = x, as a loss: the gradient of x is grad_scale / normalization, whatever that of y is.")
    .add_argument("data", "NDArray", "Any shape.")
    .params<MakeLossParam>()
    .infer(ElemwiseShape<1, 1>, SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients&) -> Gradients {
                           return {Call("_backward_MakeLoss", {node->inputs[0]}, node->attrs.dict)};
                         })
    .compute<CopyFirst>();

GLUOND_REGISTER_OP(_backward_MakeLoss)
    .describe("The gradient of MakeLoss' data.")
    .add_argument("data", "NDArray", "x.")
    .params<MakeLossParam>()
    .infer(ElemwiseShape<1, 1>, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<BackwardMakeLoss>();

}  // namespace
}  // namespace gluond::ops
