// LeakyReLU and its relatives. For x > 0, y = x; otherwise:
//   leaky  slope x
//   prelu  gamma x, with a gamma for each channel (axis 1), each sample (axis 0), each channel of each sample, or one for all
//   elu    slope (e^x - 1)
// selu and gelu have no such parameter.

#include <algorithm>
#include <optional>

#include "ops/channel_blocks.h"
#include "ops/elements.h"
#include "ops/kernel/channels.h"
#include "ops/kernel/math.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

enum LeakyReluActType { kLeaky, kPrelu, kElu, kSelu, kGelu };

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kHalfRoot = 0.70710678118654752440;    // 1 / sqrt(2)
constexpr double kNormalPeak = 0.39894228040143267794;  // 1 / sqrt(2 pi)

struct LeakyReLUParam : Param<LeakyReLUParam> {
  int act_type;
  double slope, lower_bound, upper_bound;
  static void Fields(Schema<LeakyReLUParam>& s) {
    using P = LeakyReLUParam;
    s.Field("act_type", &P::act_type)
        .Decides()
        .Enum({{"leaky", kLeaky}, {"prelu", kPrelu}, {"elu", kElu}, {"selu", kSelu}, {"gelu", kGelu}})
        .Default("leaky")
        .Describe("The function.");
    s.Field("slope", &P::slope).Default(0.25).Describe("Of leaky and elu.");
    s.Field("lower_bound", &P::lower_bound).Default(0.125).Describe("Accepted for MXNet's sake: of rrelu, which is not offered.");
    s.Field("upper_bound", &P::upper_bound).Default(0.334).Describe("Accepted for MXNet's sake: of rrelu, which is not offered.");
  }
};

// Each function has f(x) and f'(x).
struct Leaky {
  double slope;
  template <class C>
  HOST_DEVICE C F(C x) const {
    return x > 0 ? x : static_cast<C>(slope) * x;
  }
  template <class C>
  HOST_DEVICE C Slope(C x) const {
    return x > 0 ? C(1) : static_cast<C>(slope);
  }
};
struct Elu {
  double scale, alpha;
  template <class C>
  HOST_DEVICE C F(C x) const {
    return static_cast<C>(scale) * (x > 0 ? x : static_cast<C>(alpha) * math::Expm1(x));
  }
  template <class C>
  HOST_DEVICE C Slope(C x) const {
    return static_cast<C>(scale) * (x > 0 ? C(1) : static_cast<C>(alpha) * math::Exp(x));
  }
};
struct Gelu {
  template <class C>
  HOST_DEVICE C F(C x) const {
    return static_cast<C>(0.5) * x * (1 + math::Erf(x * static_cast<C>(kHalfRoot)));
  }
  template <class C>
  HOST_DEVICE C Slope(C x) const {
    const C density = static_cast<C>(kNormalPeak) * math::Exp(static_cast<C>(-0.5) * x * x);
    return static_cast<C>(0.5) * (1 + math::Erf(x * static_cast<C>(kHalfRoot))) + x * density;
  }
};

template <class A>
struct LeakyReluValue {
  A a;
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const {
    return a.F(x);
  }
};
template <class A>
struct LeakyReluDerivative {
  A a;
  template <std::floating_point C>
  HOST_DEVICE C operator()(C dy, C x) const {
    return dy * a.Slope(x);
  }
};

// Calls run(A) with the function that the attributes choose; not for prelu.
template <class Run>
absl::Status WithFunction(const LeakyReLUParam& p, const Run& run) {
  switch (p.act_type) {
    case kElu: return run(Elu{1, p.slope});
    case kSelu: return run(Elu{kSeluScale, kSeluAlpha});
    case kGelu: return run(Gelu{});
    default: return run(Leaky{p.slope});
  }
}

// Whether gamma has an element for each sample, and for each channel.
struct GammaAxes {
  bool of_samples = false, of_channels = false;
};
// MXNet's rule: gamma's axes, from the last, take x's axis 1 and then axis 0 where they have the same size or 1. x of rank 1 has
// channels only. Requires: known shapes. Nothing: some axis of gamma finds none.
std::optional<GammaAxes> LeakyReluAxesOf(const Shape& x, const Shape& gamma) {
  GammaAxes axes;
  int left = gamma.ndim();
  for (int axis = std::min(x.ndim(), 2) - 1; axis >= 0 && left > 0; --axis) {
    const int64_t size = gamma[left - 1];
    if (size != x[axis] && size != 1) continue;
    (axis == 1 || x.ndim() == 1 ? axes.of_channels : axes.of_samples) = size == x[axis];
    --left;
  }
  if (left > 0) return std::nullopt;
  return axes;
}
// x as (outer, n, inner), where gamma has n elements.
RowGeometry Slopes(const Shape& x, const Shape& gamma) {
  const GammaAxes axes = LeakyReluAxesOf(x, gamma).value_or(GammaAxes());
  const int begin = axes.of_samples || x.ndim() <= 1 ? 0 : 1, end = axes.of_channels ? std::min(x.ndim(), 2) : 1;
  if (begin >= end || gamma.Size() == 1) return {1, 1, x.Size()};
  return {x.Size(0, begin), x.Size(begin, end), x.Size(end, x.ndim())};
}

template <class C>
struct Prelu {
  RowGeometry shape;
  In<C> x, gamma;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const C v = x[i];
    y.Set(i, v > 0 ? v : gamma[i / shape.inner % shape.n] * v);
  }
};

struct LeakyReLU {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<LeakyReLUParam>();
    if (p.act_type != kPrelu) {
      return WithFunction(p, [&](auto a) { return Map<D, 1>(ctx, LeakyReluValue<decltype(a)>{a}, in.data(), req[0], out[0]); });
    }
    return ForEachReal<D>(ctx, req[0], out[0], [&]<class C>(Out<C> y) {
      return Prelu<C>{Slopes(in[0].shape, in[1].shape), In<C>(in[0]), In<C>(in[1]), y};
    });
  }
};

struct BackwardLeakyReLU {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    return WithFunction(attrs.param<LeakyReLUParam>(),
                        [&](auto a) { return Map<D, 2>(ctx, LeakyReluDerivative<decltype(a)>{a}, in.data(), req[0], out[0]); });
  }
};

template <class C>
struct BackwardPreluChannel {
  RowGeometry shape;
  In<C> dy, x, gamma;
  Out<C> dx, dgamma;
  bool set_dx, set_dgamma;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t c) const {
    const C slope = gamma[c];
    const C sum = SumChannel(g, shape, c, [&](int64_t i) { return x[i] > 0 ? C(0) : dy[i] * x[i]; });
    if (set_dx) ForEachOfChannel(g, shape, c, [&](int64_t i) { dx.Set(i, x[i] > 0 ? dy[i] : slope * dy[i]); });
    if (set_dgamma && g.first()) dgamma.Set(c, sum);
  }
};

struct BackwardPrelu {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const RowGeometry shape = Slopes(in[1].shape, in[2].shape);
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      return ForEachGroup<D>(ctx, shape.n, shape.outer * shape.inner,
                             BackwardPreluChannel<C>{shape, In<C>(in[0]), In<C>(in[1]), In<C>(in[2]), Out<C>(out[0], req[0]),
                                                     Out<C>(out[1], req[1]), req[0] != kNullOp, req[1] != kNullOp});
    });
  }
};

uint32_t LeakyReluNumInputs(const NodeAttrs& attrs) { return attrs.param<LeakyReLUParam>().act_type == kPrelu ? 2 : 1; }

absl::StatusOr<bool> LeakyReluShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  const Shape x = (*in)[0];
  if (in->size() > 1 && x.rank_known()) {
    Shape& gamma = (*in)[1];
    if (!gamma.rank_known() || (gamma.ndim() == 1 && !gamma.known())) {
      const int64_t channels = x.ndim() == 0 ? 1 : x[x.ndim() == 1 ? 0 : 1];
      SHAPE_ASSIGN_CHECK(in, 1, Shape({channels}));
    }
    if (x.known() && gamma.known() && gamma != Shape({1}) && !LeakyReluAxesOf(x, gamma)) {
      return absl::InvalidArgumentError(
          absl::StrCat("input 1 'gamma' has shape ", gamma.ToString(), ", which does not fit to data ", x.ToString(),
                       ": expected (channels), (1), or the sizes of data's first two axes, either of which may be 1"));
    }
  }
  return AllKnown(*in) && AllKnown(*out);
}

Gradients LeakyReluGradient(const NodePtr& node, const Gradients& dy) {
  if (LeakyReluNumInputs(node->attrs) == 2) {
    return OutputsOf(Call("_backward_prelu", {dy[0], node->inputs[0], node->inputs[1]}));
  }
  return {Call("_backward_LeakyReLU", {dy[0], node->inputs[0]}, node->attrs.dict)};
}

// The gradients of dy f'(x) by dy and by x.
Gradients LeakyReluGradientOfBackward(const NodePtr& node, const Gradients& g) {
  const auto& p = node->param<LeakyReLUParam>();
  const NodeEntry &dy = node->inputs[0], &x = node->inputs[1];
  const NodeEntry by_dy = Call("_backward_LeakyReLU", {g[0], x}, node->attrs.dict);
  const NodeEntry both = g[0] * dy;
  const auto below_zero = [&](double scale) { return both * CallScalar("_lesser_equal_scalar", x, 0) * Call("exp", {x}) * scale; };
  switch (p.act_type) {
    case kElu: return {by_dy, below_zero(p.slope)};
    case kSelu: return {by_dy, below_zero(kSeluScale * kSeluAlpha)};
    case kGelu: {
      const NodeEntry square = Call("square", {x});
      return {by_dy, both * Call("exp", {square * -0.5}) * (2 - square) * kNormalPeak};
    }
    default: return {by_dy, {}};
  }
}

GLUOND_REGISTER_OP(LeakyReLU)
    .describe(
        "x where x > 0, else: leaky, slope x; prelu, gamma x; elu, slope (e^x - 1). selu: 1.0507 times elu with "
        "slope "
        "1.6733. gelu: x times the normal distribution function of x.")
    .add_argument("data", "NDArray", "x: any shape.")
    .add_argument("gamma", "NDArray", "For prelu only: (channels), (1), (samples, channels), or either of them as 1.")
    .params<LeakyReLUParam>()
    .set_num_inputs(LeakyReluNumInputs)
    .set_attr<FListInputNames>("FListInputNames", FirstNames({"data", "gamma"}, LeakyReluNumInputs))
    .set_attr<FSetInputVarAttrOnCompose>("FSetInputVarAttrOnCompose",
                                         [](const NodeAttrs&, NodeAttrs* variable, int index) {
                                           if (index == 1) variable->dict.emplace("__init__", "[\"constant\", {\"value\": 0.25}]");
                                         })
    .infer(LikeFirst<LeakyReluShape>(), SameFloatType)
    .with(Elementwise<1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", LeakyReluGradient)
    .compute<LeakyReLU>();

GLUOND_REGISTER_OP(_backward_LeakyReLU)
    .describe("dx = dy f'(x).")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "x.")
    .params<LeakyReLUParam>()
    .set_num_inputs(2)
    .infer(ElemwiseShape<2, 1>, SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)
    .set_attr<FGradient>("FGradient", LeakyReluGradientOfBackward)
    .compute<BackwardLeakyReLU>();

GLUOND_REGISTER_OP(_backward_prelu)
    .describe("The gradients of prelu's x and gamma.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "x.")
    .add_argument("gamma", "NDArray", "gamma.")
    .set_num_inputs(3)
    .set_num_outputs(2)
    .infer(ShapesOfInputs<1>, SameFloatType)
    .compute<BackwardPrelu>();

}  // namespace
}  // namespace gluond::ops
