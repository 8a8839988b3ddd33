// L2Normalization: y = x / sqrt(sum x^2 + eps), the sum going over each sample (instance), over the channels of each
// position (channel), or over the positions of each channel (spatial).

#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

enum L2NormalizationMode { kInstance, kChannel, kSpatial };

struct L2NormalizationParam : Param<L2NormalizationParam> {
  double eps;
  int mode;
  static void Fields(Schema<L2NormalizationParam>& s) {
    s.Field("eps", &L2NormalizationParam::eps).Default(1e-10).AtLeast(0.0).Describe("Added to the sum of squares.");
    s.Field("mode", &L2NormalizationParam::mode)
        .Enum({{"instance", kInstance}, {"spatial", kSpatial}, {"channel", kChannel}})
        .Default("instance")
        .Describe(
            "What has norm 1: a sample (instance), the channels of a position (channel), the positions of a "
            "channel (spatial).");
  }
};

RowGeometry L2NormalizationRowsOf(const L2NormalizationParam& p, const Shape& x) {
  if (p.mode == kChannel) return ops::RowsOf(x, 1);
  const int split = p.mode == kInstance ? 1 : 2;
  return {x.Size(0, split), x.Size(split, x.ndim()), 1};
}

struct L2NormalizationNormalize {
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<L2NormalizationParam>();
    return Rows<D, 1>(ctx, L2NormalizationRowsOf(p, in[0].shape), L2NormalizationNormalize{p.eps}, in.data(), req[0], out[0]);
  }
};

absl::StatusOr<bool> L2NormalizationShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector*) {
  RETURN_IF_ERROR(CheckRank((*in)[0], attrs.param<L2NormalizationParam>().mode == kInstance ? 1 : 2));
  return AllKnown(*in);
}

// dx = (dy - y sum(y dy)) / norm.
struct L2NormalizationBackwardNormalize {
  double eps;
  template <class Group, class DY, class X, class DX>
  HOST_DEVICE void operator()(Group g, DY dy, X x, DX dx, int64_t n) const {
    using C = std::decay_t<decltype(x[0])>;
    const C norm = math::Sqrt(g.Sum(n, [&](int64_t i) { return x[i] * x[i]; }) + static_cast<C>(eps));
    const C dot = g.Sum(n, [&](int64_t i) { return x[i] / norm * dy[i]; });
    g.ForEach(n, [&](int64_t i) { dx.Set(i, (dy[i] - x[i] / norm * dot) / norm); });
  }
};

struct BackwardL2Normalization {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<L2NormalizationParam>();
    return Rows<D, 2>(ctx, L2NormalizationRowsOf(p, in[1].shape), L2NormalizationBackwardNormalize{p.eps}, in.data(), req[0],
                      out[0]);
  }
};

// With r = 1 / norm, y = x r and a the gradient of dx = r (dy - y (y . dy)), the gradient of dy is r (a - y (y . a)),
// and that of x is r (u - y (y . u)) - r^2 y (a . (dy - y (y . dy))) with u = -r (a (y . dy) + dy (y . a)), as the
// gradient of r by x is -r^2 y. Tensors of 16 bits are computed with in float32.
Gradients L2NormalizationSecondGradient(const NodePtr& node, const Gradients& heads) {
  const auto& p = node->param<L2NormalizationParam>();
  const bool channel = p.mode == kChannel;
  const AttrDict axes = {{"axis", channel               ? "1"
                                  : p.mode == kInstance ? "0"
                                                        : "(0, 1)"},
                         {"exclude", channel ? "False" : "True"},
                         {"keepdims", "True"}};
  const auto mul = [](const NodeEntry& a, const NodeEntry& b) { return Call("broadcast_mul", {a, b}); };
  const auto dot = [&](const NodeEntry& a, const NodeEntry& b) { return Call("sum", {a * b}, axes); };
  const NodeEntry dy = Call("_widen", {node->inputs[0]}), x = Call("_widen", {node->inputs[1]});
  const NodeEntry a = Call("_widen", {heads[0]});

  const NodeEntry r = Call("rsqrt", {dot(x, x) + p.eps}), y = mul(x, r);
  const auto across = [&](const NodeEntry& v) { return v - mul(y, dot(y, v)); };
  const NodeEntry u = -mul(mul(a, dot(y, dy)) + mul(dy, dot(y, a)), r);
  const NodeEntry of_x = mul(across(u), r) - mul(y, Call("square", {r}) * dot(a, across(dy)));
  return {Call("_cast_like", {mul(across(a), r), node->inputs[0]}), Call("_cast_like", {of_x, node->inputs[1]})};
}

GLUOND_REGISTER_OP(L2Normalization)
    .describe("y = x / sqrt(sum of x^2 + eps), over each sample, channel or position.")
    .add_argument("data", "NDArray", "x: (batch, channels, ...).")
    .params<L2NormalizationParam>()
    .infer(LikeFirst<L2NormalizationShape>(), SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", FirstGradient<0>{"_backward_L2Normalization"})
    .compute<L2Normalization>();

GLUOND_REGISTER_OP(_backward_L2Normalization)
    .describe("The gradient of L2Normalization's data.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "x.")
    .params<L2NormalizationParam>()
    .set_num_inputs(2)
    .infer(ElemwiseShape<2, 1>, SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)
    .set_attr<FGradient>("FGradient", L2NormalizationSecondGradient)
    .compute<BackwardL2Normalization>();

}  // namespace
}  // namespace gluond::ops
