// The steps of the optimizers, with MXNet's formulas. In each, clip(v) limits v to +-clip_gradient where that is not
// negative, and where the weight decay stands, inside the clip or outside, is the optimizer's own:
//
//   sgd_update            w = (1 - lr wd) w - lr clip(rescale g)
//   sgd_mom_update        m = momentum m - lr wd w - lr clip(rescale g);  w += m
//   nag_mom_update        u = clip(rescale g) + wd w;  m' = momentum m;  m = m' - lr u;  w += (momentum + 1) m - m'
//   adam_update           g = clip(rescale g + wd w);  m, v: moving averages of g, g^2;  w -= lr m / (sqrt(v) + eps)
//   adamw_update          g = clip(rescale g);  m, v as for Adam;  w -= eta (lr m / (sqrt(v) + eps) + wd w)
//   rmsprop_update        g = clip(rescale g + wd w);  n: moving average of g^2;  w -= lr g / sqrt(n + eps)
//   rmspropalex_update    g, n as above;  a: moving average of g;  d = gamma2 d - lr g / sqrt(n - a^2 + eps);  w += d
//
// States are inputs that are written. mp_* keep a float32 weight beside one of 16 bits, and begin from the latter
// where it has been set to something else.

#include "ops/kernel/math.h"
#include "ops/kernel/stage.h"
#include "ops/optimizer.h"

namespace gluond::ops {
namespace {

struct SgdParam : Param<SgdParam>, Common {
  bool lazy_update;
  static void Fields(auto& s) { RateField(s), CommonFields(s), LazyField(s); }
};
struct Sgd : Step<SgdParam, 0> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C*) const {
    w = (1 - C(p.lr) * C(p.wd)) * w - C(p.lr) * p.Clip(p.Rescale(g));
  }
};

struct MomentumParam : Param<MomentumParam>, Common {
  double momentum;
  bool lazy_update;
  static void Fields(auto& s) {
    RateField(s);
    s.Field("momentum", &MomentumParam::momentum).Default(0.0).Describe("Decay of the moving step.");
    CommonFields(s), LazyField(s);
  }
};
struct SgdMomentum : Step<MomentumParam, 1> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    s[0] = C(p.momentum) * s[0] - C(p.lr) * C(p.wd) * w - C(p.lr) * p.Clip(p.Rescale(g));
    w += s[0];
  }
};

struct Nag : Step<MomentumParam, 1> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C u = p.Clip(p.Rescale(g)) + C(p.wd) * w;
    const C before = C(p.momentum) * s[0];
    s[0] = before - C(p.lr) * u;
    w += (C(p.momentum) + 1) * s[0] - before;
  }
};

struct AdamParam : Param<AdamParam>, Common {
  double beta1, beta2, epsilon;
  bool lazy_update;
  static void Fields(auto& s) {
    RateField(s);
    AverageFields(s, 1e-8), CommonFields(s), LazyField(s);
  }
};
// s: the averages of g and of g^2. Returns m / (sqrt(v) + eps).
template <class P, class C>
HOST_DEVICE C AdamDirection(const P& p, C g, C* s) {
  s[0] = C(p.beta1) * s[0] + C(1 - p.beta1) * g;
  s[1] = C(p.beta2) * s[1] + C(1 - p.beta2) * g * g;
  return s[0] / (math::Sqrt(s[1]) + C(p.epsilon));
}
struct Adam : Step<AdamParam, 2> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    w -= C(p.lr) * AdamDirection(p, p.Clip(p.Rescale(g) + C(p.wd) * w), s);
  }
};

struct AdamWParam : Param<AdamWParam>, Common {
  double beta1, beta2, epsilon, eta;
  static void Fields(auto& s) {
    RateField(s), CommonFields(s), AverageFields(s, 1e-8);
    s.Field("eta", &AdamWParam::eta).Default(1.0).Describe("Multiplies the whole step, weight decay included.");
  }
};
struct AdamW : Step<AdamWParam, 2> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C direction = AdamDirection(p, p.Clip(p.Rescale(g)), s);
    w -= C(p.eta) * (C(p.lr) * direction + C(p.wd) * w);
  }
};

template <template <class> class S, class P>
void ClipWeightsField(S<P>& s) {
  s.Field("clip_weights", &P::clip_weights).Default(-1.0).Describe("Limit of the weight's magnitude; not positive: none.");
}
struct RmsPropParam : Param<RmsPropParam>, Common {
  double gamma1, epsilon, clip_weights;
  static void Fields(auto& s) {
    RateField(s);
    s.Field("gamma1", &RmsPropParam::gamma1).Default(0.95).Describe("Decay of the squared gradient's average.");
    s.Field("epsilon", &RmsPropParam::epsilon).Default(1e-8).Describe("Keeps the quotient finite.");
    CommonFields(s);
    ClipWeightsField(s);
  }
};
template <class C>
HOST_DEVICE C ClipWeight(double clip_weights, C w) {
  const C limit = static_cast<C>(clip_weights);
  if (!(limit > 0)) return w;
  const C low = w < -limit ? -limit : w;
  return low > limit ? limit : low;
}
struct RmsProp : Step<RmsPropParam, 1> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C d = p.Clip(p.Rescale(g) + C(p.wd) * w);
    s[0] = C(1 - p.gamma1) * d * d + C(p.gamma1) * s[0];
    w = ClipWeight(p.clip_weights, w - C(p.lr) * d / math::Sqrt(s[0] + C(p.epsilon)));
  }
};

struct RmsPropAlexParam : Param<RmsPropAlexParam>, Common {
  double gamma1, gamma2, epsilon, clip_weights;
  static void Fields(auto& s) {
    using P = RmsPropAlexParam;
    RateField(s);
    s.Field("gamma1", &P::gamma1).Default(0.95).Describe("Decay of the averages of the gradient and of its square.");
    s.Field("gamma2", &P::gamma2).Default(0.9).Describe("Decay of the moving step.");
    s.Field("epsilon", &P::epsilon).Default(1e-8).Describe("Keeps the quotient finite.");
    CommonFields(s);
    ClipWeightsField(s);
  }
};
struct RmsPropAlex : Step<RmsPropAlexParam, 3> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C d = p.Clip(p.Rescale(g) + C(p.wd) * w);
    s[0] = C(1 - p.gamma1) * d * d + C(p.gamma1) * s[0];
    s[1] = C(1 - p.gamma1) * d + C(p.gamma1) * s[1];
    s[2] = C(p.gamma2) * s[2] - C(p.lr) * d / math::Sqrt(s[0] - s[1] * s[1] + C(p.epsilon));
    w = ClipWeight(p.clip_weights, w + s[2]);
  }
};

UPDATE(sgd_update, Sgd).describe("w = (1 - lr wd) w - lr clip(rescale_grad g).");
UPDATE(sgd_mom_update, SgdMomentum, "mom").describe("m = momentum m - lr wd w - lr clip(rescale_grad g); w += m.");
UPDATE(nag_mom_update, Nag, "mom")
    .describe("Nesterov: u = clip(rescale_grad g) + wd w; m' = momentum m; m = m' - lr u; w += (momentum + 1) m - m'.");
UPDATE(adam_update, Adam, "mean", "var")
    .describe(
        "g = clip(rescale_grad g + wd w); mean, var: moving averages of g, g^2; w -= lr mean / (sqrt(var) + "
        "epsilon). The caller corrects lr for the averages' start.");
UPDATE(adamw_update, AdamW, "mean", "var")
    .describe(
        "g = clip(rescale_grad g); mean, var: moving averages of g, g^2; "
        "w -= eta (lr mean / (sqrt(var) + epsilon) + wd w).");
UPDATE(rmsprop_update, RmsProp, "n")
    .describe("g = clip(rescale_grad g + wd w); n: moving average of g^2; w -= lr g / sqrt(n + epsilon).");
UPDATE(rmspropalex_update, RmsPropAlex, "n", "g", "delta")
    .describe(
        "Centered: d = clip(rescale_grad g + wd w); n, g: moving averages of d^2, d; "
        "delta = gamma2 delta - lr d / sqrt(n - g^2 + epsilon); w += delta.");
UPDATE(mp_adam_update, MultiPrecision<Adam>, "mean", "var", "weight32")
    .describe("adam_update of weight32; weight takes its value.");
UPDATE(mp_adamw_update, MultiPrecision<AdamW>, "mean", "var", "weight32")
    .describe("adamw_update of weight32; weight takes its value.");
UPDATE(mp_rmsprop_update, MultiPrecision<RmsProp>, "n", "weight32").describe("rmsprop_update of weight32; weight takes its value.");
UPDATE(mp_rmspropalex_update, MultiPrecision<RmsPropAlex>, "n", "g", "delta", "weight32")
    .describe("rmspropalex_update of weight32; weight takes its value.");
UPDATE(mp_nag_mom_update, MultiPrecision<Nag>, "mom", "weight32").describe("nag_mom_update of weight32; weight takes its value.");
UPDATE(mp_sgd_update, MultiPrecision<Sgd>, "weight32").describe("sgd_update of weight32; weight takes its value.");
UPDATE(mp_sgd_mom_update, MultiPrecision<SgdMomentum>, "mom", "weight32")
    .describe("sgd_mom_update of weight32; weight takes its value.");

// multi_sgd_update and its like have rates that are attributes: a row of numbers for each weight is made of them.
template <bool has_momentum>
struct MultiParam : Param<MultiParam<has_momentum>> {
  std::vector<double> lrs, wds;
  double momentum, rescale_grad, clip_gradient;
  int64_t num_weights;
  static void Fields(Schema<MultiParam>& s) {
    using P = MultiParam;
    s.Field("lrs", &P::lrs).Describe("The learning rate of each weight.");
    s.Field("wds", &P::wds).Describe("The weight decay of each weight.");
    if (has_momentum) s.Field("momentum", &P::momentum).Default(0.0).Describe("Decay of the moving step.");
    s.Field("rescale_grad", &P::rescale_grad).Default(1.0).Describe("Multiplies the gradients.");
    s.Field("clip_gradient", &P::clip_gradient).Default(-1.0).Describe("Limit of the gradients' magnitude; negative: none.");
    s.Field("num_weights", &P::num_weights).Decides().Default(int64_t{1}).Range(1, 1 << 16).Describe("The number of weights.");
  }
};

template <class F>
inline constexpr bool kHasMomentum = requires(typename F::P p) {
  p.momentum;
};

template <class P>
absl::Status ParseOptimizerUpdate(NodeAttrs* attrs) {
  RETURN_IF_ERROR(ParamParser<P>(attrs));
  const P& p = attrs->param<P>();
  const size_t n = static_cast<size_t>(p.num_weights);
  if (p.lrs.size() == n && p.wds.size() == n) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parameters 'lrs' and 'wds' have ", p.lrs.size(), " and ", p.wds.size(), " elements; want num_weights, ", n));
}

// A part of the numbers, on its way to the device's memory as a kernel's parameter.
struct RatesSlice {
  static constexpr int64_t kMost = 256;
  double value[kMost];
  double* to;
  HOST_DEVICE void operator()(int64_t i) const { to[i] = value[i]; }
};

template <class F>
struct RatesUpdate {
  using P = MultiParam<kHasMomentum<F>>;

  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const P& p = attrs.param<P>();
    MakeStep<F> make{};
    static_cast<Common&>(make.p) = {0, 0, p.rescale_grad, p.clip_gradient};
    if constexpr (kHasMomentum<F>) make.p.momentum = p.momentum;
    make.columns = {{{.real = &F::P::lr}, {.real = &F::P::wd}}, 2};
    ASSIGN_OR_RETURN(double* const numbers, Space<double>(ctx, 2 * p.num_weights));
    make.numbers = numbers;
    RatesSlice slice = {{}, numbers};
    for (int64_t k = 0; k < p.num_weights;) {
      int64_t n = 0;
      for (; n < RatesSlice::kMost && k < p.num_weights; ++k) slice.value[n++] = p.lrs[k], slice.value[n++] = p.wds[k];
      RETURN_IF_ERROR(ForEach<D>(ctx, n, slice));
      slice.to += n;
    }
    return Update<D, F>(ctx, make, in.data(), req, out);
  }

  static absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
    return InferWeights<F>(0, in, out, [&](ShapeVector* x, ShapeVector* y) { return SameShape(attrs, x, y); });
  }
  static absl::StatusOr<bool> InferType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
    return InferTypes<F>(UpdateType<F::kMultiPrecision>, 0, attrs, in, out);
  }
};

#define MULTI(name, F, one, inputs)                                                                   \
  GLUOND_REGISTER_OP(name)                                                                            \
      .describe(one " on several weights at once.")                                                   \
      .add_argument("data", "NDArray[]", inputs " of each weight in turn.")                           \
      .params<RatesUpdate<F>::P>(ParseOptimizerUpdate<RatesUpdate<F>::P>)                             \
      .with([](OpRegistration& op) { SetWeights<F>(op, Count<&RatesUpdate<F>::P::num_weights>, 0); }) \
      .infer(RatesUpdate<F>::InferShape, RatesUpdate<F>::InferType)                                   \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)                                      \
      .compute<RatesUpdate<F>>()

MULTI(multi_sgd_update, Sgd, "sgd_update", "weight and grad");
MULTI(multi_sgd_mom_update, SgdMomentum, "sgd_mom_update", "weight, grad and mom");
MULTI(multi_mp_sgd_update, MultiPrecision<Sgd>, "mp_sgd_update", "weight, grad and weight32");
MULTI(multi_mp_sgd_mom_update, MultiPrecision<SgdMomentum>, "mp_sgd_mom_update", "weight, grad, mom and weight32");

}  // namespace
}  // namespace gluond::ops
