// L2Normalization: y = x / sqrt(sum x^2 + eps), the sum going over each sample (instance), over the channels of each
// position (channel), or over the positions of each channel (spatial). The gradient is a graph of operators from x.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

enum Mode { kInstance, kChannel, kSpatial };

struct L2NormalizationParam : Param<L2NormalizationParam> {
  double eps;
  int mode;
  static void Fields(Schema<L2NormalizationParam>& s) {
    s.Field("eps", &L2NormalizationParam::eps).Default(1e-10).AtLeast(0.0).Describe("Added to the sum of squares.");
    s.Field("mode", &L2NormalizationParam::mode)
        .Enum({{"instance", kInstance}, {"spatial", kSpatial}, {"channel", kChannel}})
        .Default("instance")
        .Describe("What has norm 1: a sample (instance), the channels of a position (channel), the positions of a "
                  "channel (spatial).");
  }
};

struct Normalize {
  double eps;
  template <class Group, class X, class Y>
  HOST_DEVICE void operator()(Group g, X x, Y y, int64_t n) const {
    using C = std::decay_t<decltype(x[0])>;
    const C norm = math::Sqrt(g.Sum(n, [&](int64_t i) { return x[i] * x[i]; }) + static_cast<C>(eps));
    g.ForEach(n, [&](int64_t i) { y.Set(i, x[i] / norm); });
  }
};

struct L2Normalization {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
    const auto& p = attrs.param<L2NormalizationParam>();
    const Shape& x = in[0].shape;
    const int split = p.mode == kInstance ? 1 : 2;
    const RowGeometry rows =
        p.mode == kChannel ? RowsOf(x, 1) : RowGeometry{x.Size(0, split), x.Size(split, x.ndim()), 1};
    return Rows<D, 1>(ctx, rows, Normalize{p.eps}, in.data(), req[0], out[0]);
  }
};

absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ASSIGN_OR_RETURN(const bool known, SameShape(attrs, in, out));
  const Shape& x = (*in)[0];
  const int least = attrs.param<L2NormalizationParam>().mode == kInstance ? 1 : 2;
  if (!x.rank_known() || x.ndim() >= least) return known;
  return absl::InvalidArgumentError(
      absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected rank ", least, " or more"));
}

// dx = (dy - y sum(y dy)) / norm.
Gradients Gradient(const NodePtr& node, const Gradients& dy) {
  const auto& p = node->param<L2NormalizationParam>();
  const NodeEntry x = node->inputs[0];
  const auto sum = [&](const NodeEntry& e) {
    const bool channel = p.mode == kChannel;
    return Call("sum", {e}, {{"axis", channel ? "1" : p.mode == kInstance ? "0" : "(0, 1)"},
                             {"exclude", channel ? "False" : "True"},
                             {"keepdims", "True"}});
  };
  const NodeEntry inverse = Call("rsqrt", {sum(Call("square", {x})) + p.eps});
  const NodeEntry y = Call("broadcast_mul", {x, inverse});
  return {Call("broadcast_mul", {dy[0] - Call("broadcast_mul", {y, sum(y * dy[0])}), inverse})};
}

GLUOND_REGISTER_OP(L2Normalization)
    .describe("y = x / sqrt(sum of x^2 + eps), over each sample, channel or position.")
    .add_argument("data", "NDArray", "x: (batch, channels, ...).")
    .add_arguments(L2NormalizationParam::__FIELDS__())
    .set_attr_parser(ParamParser<L2NormalizationParam>)
    .set_attr<FInferShape>("FInferShape", InferShape)
    .set_attr<FInferType>("FInferType", SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", Gradient)
    .compute<L2Normalization>();

}  // namespace
}  // namespace gluond::ops
