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
// States are inputs that are written. mp_* keep a float32 weight beside one of 16 bits, and begin from the latter where it
// has been set to something else.

#include "ops/kernel/math.h"
#include "ops/optimizer.h"
#include "ops/sgd.h"

namespace gluond::ops {
namespace {

struct Nag {
  static constexpr int kStates = 1;
  static constexpr bool kMultiPrecision = false;
  using P = MomentumParam;
  Common p;
  double momentum;
  explicit Nag(const P& param) : p(param), momentum(param.momentum) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C u = p.Clip(p.Rescale(g)) + C(p.wd) * w;
    const C before = C(momentum) * s[0];
    s[0] = before - C(p.lr) * u;
    w += (C(momentum) + 1) * s[0] - before;
  }
};

struct AdamParam : Param<AdamParam>, Common {
  double beta1, beta2, epsilon;
  bool lazy_update;
  static void Fields(Schema<AdamParam>& s) {
    RateField(s);
    s.Field("beta1", &AdamParam::beta1).Default(0.9).Describe("Decay of the gradient's average.");
    s.Field("beta2", &AdamParam::beta2).Default(0.999).Describe("Decay of the squared gradient's average.");
    s.Field("epsilon", &AdamParam::epsilon).Default(1e-8).Describe("Keeps the quotient finite.");
    CommonFields(s), LazyField(s);
  }
};
// s: the averages of g and of g^2. Returns m / (sqrt(v) + eps).
template <class C>
HOST_DEVICE C AdamDirection(double beta1, double beta2, double epsilon, C g, C* s) {
  s[0] = C(beta1) * s[0] + C(1 - beta1) * g;
  s[1] = C(beta2) * s[1] + C(1 - beta2) * g * g;
  return s[0] / (math::Sqrt(s[1]) + C(epsilon));
}
struct Adam {
  static constexpr int kStates = 2;
  static constexpr bool kMultiPrecision = false;
  using P = AdamParam;
  Common p;
  double beta1, beta2, epsilon;
  explicit Adam(const P& param) : p(param), beta1(param.beta1), beta2(param.beta2), epsilon(param.epsilon) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    w -= C(p.lr) * AdamDirection(beta1, beta2, epsilon, p.Clip(p.Rescale(g) + C(p.wd) * w), s);
  }
};

struct AdamWParam : Param<AdamWParam>, Common {
  double beta1, beta2, epsilon, eta;
  static void Fields(Schema<AdamWParam>& s) {
    RateField(s), CommonFields(s);
    s.Field("beta1", &AdamWParam::beta1).Default(0.9).Describe("Decay of the gradient's average.");
    s.Field("beta2", &AdamWParam::beta2).Default(0.999).Describe("Decay of the squared gradient's average.");
    s.Field("epsilon", &AdamWParam::epsilon).Default(1e-8).Describe("Keeps the quotient finite.");
    s.Field("eta", &AdamWParam::eta).Default(1.0).Describe("Multiplies the whole step, weight decay included.");
  }
};
struct AdamW {
  static constexpr int kStates = 2;
  static constexpr bool kMultiPrecision = false;
  using P = AdamWParam;
  Common p;
  double beta1, beta2, epsilon, eta;
  explicit AdamW(const P& param)
      : p(param), beta1(param.beta1), beta2(param.beta2), epsilon(param.epsilon), eta(param.eta) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C direction = AdamDirection(beta1, beta2, epsilon, p.Clip(p.Rescale(g)), s);
    w -= C(eta) * (C(p.lr) * direction + C(p.wd) * w);
  }
};

struct RmsPropParam : Param<RmsPropParam>, Common {
  double gamma1, epsilon, clip_weights;
  static void Fields(Schema<RmsPropParam>& s) {
    RateField(s);
    s.Field("gamma1", &RmsPropParam::gamma1).Default(0.95).Describe("Decay of the squared gradient's average.");
    s.Field("epsilon", &RmsPropParam::epsilon).Default(1e-8).Describe("Keeps the quotient finite.");
    CommonFields(s);
    s.Field("clip_weights", &RmsPropParam::clip_weights).Default(-1.0)
        .Describe("Limit of the weight's magnitude; not positive: none.");
  }
};
template <class C>
HOST_DEVICE C ClipWeight(double clip_weights, C w) {
  const C limit = static_cast<C>(clip_weights);
  if (!(limit > 0)) return w;
  const C low = w < -limit ? -limit : w;
  return low > limit ? limit : low;
}
struct RmsProp {
  static constexpr int kStates = 1;
  static constexpr bool kMultiPrecision = false;
  using P = RmsPropParam;
  Common p;
  double gamma1, epsilon, clip_weights;
  explicit RmsProp(const P& param)
      : p(param), gamma1(param.gamma1), epsilon(param.epsilon), clip_weights(param.clip_weights) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C d = p.Clip(p.Rescale(g) + C(p.wd) * w);
    s[0] = C(1 - gamma1) * d * d + C(gamma1) * s[0];
    w = ClipWeight(clip_weights, w - C(p.lr) * d / math::Sqrt(s[0] + C(epsilon)));
  }
};

struct RmsPropAlexParam : Param<RmsPropAlexParam>, Common {
  double gamma1, gamma2, epsilon, clip_weights;
  static void Fields(Schema<RmsPropAlexParam>& s) {
    using P = RmsPropAlexParam;
    RateField(s);
    s.Field("gamma1", &P::gamma1).Default(0.95).Describe("Decay of the averages of the gradient and of its square.");
    s.Field("gamma2", &P::gamma2).Default(0.9).Describe("Decay of the moving step.");
    s.Field("epsilon", &P::epsilon).Default(1e-8).Describe("Keeps the quotient finite.");
    CommonFields(s);
    s.Field("clip_weights", &P::clip_weights).Default(-1.0)
        .Describe("Limit of the weight's magnitude; not positive: none.");
  }
};
struct RmsPropAlex {
  static constexpr int kStates = 3;
  static constexpr bool kMultiPrecision = false;
  using P = RmsPropAlexParam;
  Common p;
  double gamma1, gamma2, epsilon, clip_weights;
  explicit RmsPropAlex(const P& param)
      : p(param),
        gamma1(param.gamma1),
        gamma2(param.gamma2),
        epsilon(param.epsilon),
        clip_weights(param.clip_weights) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C d = p.Clip(p.Rescale(g) + C(p.wd) * w);
    s[0] = C(1 - gamma1) * d * d + C(gamma1) * s[0];
    s[1] = C(1 - gamma1) * d + C(gamma1) * s[1];
    s[2] = C(gamma2) * s[2] - C(p.lr) * d / math::Sqrt(s[0] - s[1] * s[1] + C(epsilon));
    w = ClipWeight(clip_weights, w + s[2]);
  }
};

UPDATE(sgd_update, Sgd).describe("w = (1 - lr wd) w - lr clip(rescale_grad g).");
UPDATE(sgd_mom_update, SgdMomentum, "mom")
    .describe("m = momentum m - lr wd w - lr clip(rescale_grad g); w += m.");
UPDATE(nag_mom_update, Nag, "mom")
    .describe("Nesterov: u = clip(rescale_grad g) + wd w; m' = momentum m; m = m' - lr u; w += (momentum + 1) m - m'.");
UPDATE(adam_update, Adam, "mean", "var")
    .describe(
        "g = clip(rescale_grad g + wd w); mean, var: moving averages of g, g^2; w -= lr mean / (sqrt(var) + "
        "epsilon). "
        "The caller corrects lr for the averages' start.");
UPDATE(adamw_update, AdamW, "mean", "var")
    .describe("g = clip(rescale_grad g); mean, var: moving averages of g, g^2; "
              "w -= eta (lr mean / (sqrt(var) + epsilon) + wd w).");
UPDATE(rmsprop_update, RmsProp, "n")
    .describe("g = clip(rescale_grad g + wd w); n: moving average of g^2; w -= lr g / sqrt(n + epsilon).");
UPDATE(rmspropalex_update, RmsPropAlex, "n", "g", "delta")
    .describe("Centered: d = clip(rescale_grad g + wd w); n, g: moving averages of d^2, d; "
              "delta = gamma2 delta - lr d / sqrt(n - g^2 + epsilon); w += delta.");
UPDATE(mp_adam_update, MultiPrecision<Adam>, "mean", "var", "weight32")
    .describe("adam_update of weight32; weight takes its value.");
UPDATE(mp_adamw_update, MultiPrecision<AdamW>, "mean", "var", "weight32")
    .describe("adamw_update of weight32; weight takes its value.");
UPDATE(mp_rmsprop_update, MultiPrecision<RmsProp>, "n", "weight32")
    .describe("rmsprop_update of weight32; weight takes its value.");
UPDATE(mp_rmspropalex_update, MultiPrecision<RmsPropAlex>, "n", "g", "delta", "weight32")
    .describe("rmspropalex_update of weight32; weight takes its value.");
UPDATE(mp_nag_mom_update, MultiPrecision<Nag>, "mom", "weight32")
    .describe("nag_mom_update of weight32; weight takes its value.");
UPDATE(mp_sgd_update, MultiPrecision<Sgd>, "weight32").describe("sgd_update of weight32; weight takes its value.");
UPDATE(mp_sgd_mom_update, MultiPrecision<SgdMomentum>, "mom", "weight32")
    .describe("sgd_mom_update of weight32; weight takes its value.");

}  // namespace
}  // namespace gluond::ops
