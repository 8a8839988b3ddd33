// SVMOutput: y = x, with the gradient of the one-against-all hinge loss with the labels, whatever head gradient comes
// in. With s = x for the label's class and -x for the others, and C the regularization coefficient, it is that of
// C max(0, margin - s) (use_linear) or C max(0, margin - s)^2.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/labels.h"
#include "ops/kernel/rows.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct SVMOutputParam : Param<SVMOutputParam> {
  double margin, regularization_coefficient;
  bool use_linear;
  static void Fields(Schema<SVMOutputParam>& s) {
    s.Field("margin", &SVMOutputParam::margin).Default(1.0).Describe("What a score should exceed.");
    s.Field("regularization_coefficient", &SVMOutputParam::regularization_coefficient)
        .Default(1.0)
        .Describe("Multiplies the gradient.");
    s.Field("use_linear", &SVMOutputParam::use_linear).Default(false)
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const auto& p = attrs.param<SVMOutputParam>();
    const RowGeometry rows = RowsOf(in[0].shape, in[0].shape.ndim() - 1);
    const Labels labels = {In<double>(in[1]), rows.n};
    RETURN_IF_ERROR(CheckLabels<D>(labels, rows.rows()));
    return DispatchReal(out[0].dtype, [&](auto c) {
      using C = decltype(c);
      return ForEachGroup<D>(ctx, rows.rows(), rows.n,
                             HingeGradient<C>{rows, labels, In<C>(in[0]), Out<C>(out[0], req[0]),
                                              static_cast<C>(p.margin),
                                              static_cast<C>(p.regularization_coefficient), p.use_linear});
    });
  }
};

// A label for each row along the last axis.
absl::StatusOr<bool> InferShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  SHAPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  if (x.ndim() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected rank 2 or more"));
  }
  SHAPE_ASSIGN_CHECK(in, 1, Shape(x.begin(), x.end() - 1));
  return AllKnown(*in);
}

// The label may have any type; where nothing is said, that of x.
absl::StatusOr<bool> InferType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  TYPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  TYPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  RETURN_IF_ERROR(CheckFloat("input 0 'data'", (*in)[0]));
  if ((*in)[1] == DType::kUnknown) (*in)[1] = (*in)[0];
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(SVMOutput)
    .describe("y = x. Its gradient is that of the one-against-all hinge loss with the labels, whatever that of y is. A "
              "label that is no class is an error on a CPU; on a GPU its row's gradient is NaN.")
    .add_argument("data", "NDArray", "x: (batch, classes).")
    .add_argument("label", "NDArray", "The class of each row, of any type.")
    .add_arguments(SVMOutputParam::__FIELDS__())
    .set_attr_parser(ParamParser<SVMOutputParam>)
    .set_num_inputs(2)
    .set_attr<FInferShape>("FInferShape", InferShape)
    .set_attr<FInferType>("FInferType", InferType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FBeginsGradient>("FBeginsGradient", AlwaysBeginsGradient)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients&) -> Gradients {
                           return {Call("_backward_SVMOutput", {Output(node), node->inputs[1]}, node->attrs.dict), {}};
                         })
    .compute<CopyFirst>();

GLUOND_REGISTER_OP(_backward_SVMOutput)
    .describe("The gradient of SVMOutput's data.")
    .add_argument("output", "NDArray", "y.")
    .add_argument("label", "NDArray", "The class of each row.")
    .add_arguments(SVMOutputParam::__FIELDS__())
    .set_attr_parser(ParamParser<SVMOutputParam>)
    .set_num_inputs(2)
    .set_attr<FInferShape>("FInferShape", InferShape)
    .set_attr<FInferType>("FInferType", InferType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .compute<BackwardSVMOutput>();

}  // namespace
}  // namespace gluond::ops
