// LRN, local response normalization: y = x / s^beta with s = knorm + alpha / nsize times the sum of x^2 over the nsize
// channels around. The gradient is a graph of operators, in which that sum is a Pooling over the channels' axis.

#include "ops/elements.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct LRNParam : Param<LRNParam> {
  double alpha, beta, knorm;
  int64_t nsize;
  static void Fields(Schema<LRNParam>& s) {
    s.Field("alpha", &LRNParam::alpha).Default(1e-4).Describe("Multiplies the mean of squares.");
    s.Field("beta", &LRNParam::beta).Default(0.75).Describe("The exponent.");
    s.Field("knorm", &LRNParam::knorm).Default(2.0).Describe("Added to the squares.");
    s.Field("nsize", &LRNParam::nsize)
        .Check([](int64_t v) { return v > 0 && v < (1 << 20) && v % 2 == 1; }, "want an odd number, 1 to 2^20")
        .Describe("Channels in a window, the one in the middle included.");
  }
};

template <class C>
struct LrnNormalize {
  RowGeometry shape;
  In<C> x;
  Out<C> y;
  double alpha, beta, knorm;
  int64_t reach;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t channel = i / shape.inner % shape.n;
    const int64_t from = channel < reach ? -channel : -reach;
    const int64_t to = shape.n - 1 - channel < reach ? shape.n - 1 - channel : reach;
    C sum = 0;
    for (int64_t k = from; k <= to; ++k) sum += x[i + k * shape.inner] * x[i + k * shape.inner];
    y.Set(i, x[i] * math::Pow(static_cast<C>(knorm) + static_cast<C>(alpha) * sum, static_cast<C>(-beta)));
  }
};

struct LRN {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<LRNParam>();
    return ForEachReal<D>(
        ctx, req[0], out[0],
        [&]<class C>(Out<C> z) {
          return LrnNormalize<C>{
              RowsOf(in[0].shape, 1), In<C>(in[0]), z, p.alpha / static_cast<double>(p.nsize), p.beta, p.knorm, p.nsize / 2};
        },
        1 + kGrain / 64);
  }
};

// dx = dy / s^beta - 2 alpha beta / nsize x W(dy x / s^(beta + 1)), where W sums over a window.
Gradients LrnGradient(const NodePtr& node, const Gradients& dy) {
  const auto& p = node->param<LRNParam>();
  const NodeEntry x = node->inputs[0];
  const auto window = [&](const NodeEntry& e) {
    const NodeEntry plane = Call("Reshape", {e}, {{"shape", "(0, -4, 1, -1, -3)"}});  // (batch, 1, channels, positions)
    const NodeEntry sums = Call(
        "Pooling", {plane},
        {{"kernel", absl::StrCat("(", p.nsize, ", 1)")}, {"pad", absl::StrCat("(", p.nsize / 2, ", 0)")}, {"pool_type", "sum"}});
    return Call("reshape_like", {sums, x});
  };
  const double mean = p.alpha / static_cast<double>(p.nsize);
  const NodeEntry s = window(Call("square", {x})) * mean + p.knorm;
  const NodeEntry factor = CallScalar("_power_scalar", s, -p.beta);
  return {dy[0] * factor - x * window(dy[0] * x * factor / s) * (2 * mean * p.beta)};
}

absl::StatusOr<bool> LrnShape(const NodeAttrs&, ShapeVector* in, ShapeVector*) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(4));
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(LRN)
    .describe("y = x / (knorm + alpha / nsize * the sum of x^2 over the nsize channels around)^beta.")
    .add_argument("data", "NDArray", "x: (batch, channels, height, width).")
    .params<LRNParam>()
    .infer(LikeFirst<LrnShape>(), SameFloatType)
    .set_attr<FGradient>("FGradient", LrnGradient)
    .compute<LRN>();

}  // namespace
}  // namespace gluond::ops
