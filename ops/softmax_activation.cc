// SoftmaxActivation: softmax over each sample, or over the channels of each position.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/softmax.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

enum Mode { kInstance, kChannel };

struct SoftmaxActivationParam : Param<SoftmaxActivationParam> {
  int mode;
  static void Fields(Schema<SoftmaxActivationParam>& s) {
    s.Field("mode", &SoftmaxActivationParam::mode)
        .Enum({{"instance", kInstance}, {"channel", kChannel}})
        .Default("instance")
        .Describe("What sums to 1: all of a sample (instance), or the channels of each position (channel).");
  }
};

struct SoftmaxActivation {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const Shape& x = in[0].shape;
    const bool channel = attrs.param<SoftmaxActivationParam>().mode == kChannel;
    const RowGeometry rows = channel ? RowsOf(x, 1) : RowGeometry{x[0], x.Size(1, x.ndim()), 1};
    return Rows<D, 1>(ctx, rows, Softmax{1}, in.data(), req[0], out[0]);
  }
};

Gradients Gradient(const NodePtr& node, const Gradients& dy) {
  const NodeEntry y = Output(node);
  if (node->param<SoftmaxActivationParam>().mode == kChannel) {
    return {Call("_backward_softmax", {dy[0], y}, {{"axis", "1"}})};
  }
  return {Call("reshape_like", {Call("_backward_softmax", {Call("Flatten", {dy[0]}), Call("Flatten", {y})}), y})};
}

GLUOND_REGISTER_OP(SoftmaxActivation)
    .describe("softmax over each sample, or over the channels of each position.")
    .add_argument("data", "NDArray", "x: (batch, channels, ...).")
    .add_arguments(SoftmaxActivationParam::__FIELDS__())
    .set_attr_parser(ParamParser<SoftmaxActivationParam>)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             ASSIGN_OR_RETURN(const bool known, SameShape(attrs, in, out));
                             const Shape& x = (*in)[0];
                             if (!x.rank_known() || x.ndim() >= 2) return known;
                             return absl::InvalidArgumentError(absl::StrCat(
                                 "input 0 'data' has shape ", x.ToString(), ", expected rank 2 or more"));
                           })
    .set_attr<FInferType>("FInferType", SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", Gradient)
    .compute<SoftmaxActivation>();

}  // namespace
}  // namespace gluond::ops
