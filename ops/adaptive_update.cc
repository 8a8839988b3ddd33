// Steps that MXNet's optimizers write in operators of arithmetic, each as one operator. In each, clip(v) limits v to +-clip_gradient
// where that is not negative:
//
//   adagrad_update      g = clip(rescale g);  h += g^2;  w -= lr (g / sqrt(h + eps) + wd w)
//   adadelta_update     g = clip(rescale g);  n = rho n + (1 - rho) g^2;  d = sqrt(s + eps) / sqrt(n + eps) g;
//                       s = rho s + (1 - rho) d^2;  w -= d + wd w
//   adamax_update       g = clip(rescale g + wd w);  m = beta1 m + (1 - beta1) g;  u = max(beta2 u, |g|);
//                       w -= lr m / max(u, 1e-37)
//   dcasgd_update       g = clip(rescale g);  d = -lr (g + wd w + lamda g^2 (w - previous));  previous = w;  w += d
//   dcasgd_mom_update   the same with m = momentum m + d, and w += m
//
// Each result of arithmetic is rounded as an operator rounds it on a CPU, so that the bits are those of MXNet's calls. So the file is
// compiled without fused multiply-adds (ops/BUILD), which round once where two operators round twice.

#include "ops/kernel/arithmetic.h"
#include "ops/kernel/math.h"
#include "ops/optimizer.h"

namespace gluond::ops {
namespace {

struct AdaGradParam : Param<AdaGradParam>, Common {
  double epsilon;
  static void Fields(auto& s) {
    RateField(s);
    s.Field("epsilon", &AdaGradParam::epsilon).Default(1e-7).Describe("Keeps the quotient finite.");
    CommonFields(s);
  }
};
struct AdaGrad : Step<AdaGradParam, 1> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    g = p.Clip(p.Rescale(g));
    s[0] = s[0] + g * g;
    const C step = g / math::Sqrt(s[0] + C(p.epsilon));
    w = w - C(p.lr) * (step + C(p.wd) * w);
  }
};

struct AdaDeltaParam : Param<AdaDeltaParam>, Common {
  double rho, epsilon;
  static void Fields(auto& s) {
    s.Field("rho", &AdaDeltaParam::rho).Default(0.9).Describe("Decay of both averages.");
    s.Field("epsilon", &AdaDeltaParam::epsilon).Default(1e-5).Describe("Keeps the quotient finite, and begins the steps.");
    CommonFields(s);
  }
};
struct AdaDelta : Step<AdaDeltaParam, 2> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C rho = C(p.rho), rest = C(1 - p.rho), epsilon = C(p.epsilon);
    g = p.Clip(p.Rescale(g));
    s[0] = rho * s[0] + rest * g * g;
    const C step = math::Sqrt(s[1] + epsilon) / math::Sqrt(s[0] + epsilon) * g;
    s[1] = rho * s[1] + rest * step * step;
    w = w - (step + C(p.wd) * w);
  }
};

struct AdamaxParam : Param<AdamaxParam>, Common {
  double beta1, beta2;
  static void Fields(auto& s) {
    RateField(s);
    s.Field("beta1", &AdamaxParam::beta1).Default(0.9).Describe("Decay of the gradient's average.");
    s.Field("beta2", &AdamaxParam::beta2).Default(0.999).Describe("Decay of the largest gradient.");
    CommonFields(s);
  }
};
struct Adamax : Step<AdamaxParam, 2> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    g = p.Clip(p.Rescale(g) + C(p.wd) * w);
    s[0] = C(p.beta1) * s[0] + C(1 - p.beta1) * g;
    s[1] = Maximum()(C(p.beta2) * s[1], math::Abs(g));
    w = w - C(p.lr) * s[0] / Maximum()(s[1], C(1e-37));
  }
};

struct DcasgdParam : Param<DcasgdParam>, Common {
  double lamda;
  static void Fields(auto& s) {
    RateField(s), CommonFields(s);
    s.Field("lamda", &DcasgdParam::lamda).Default(0.04).Describe("Weight of the compensation.");
  }
};
template <class P, class C>
HOST_DEVICE C CompensatedStep(const P& p, C w, C g, C previous) {
  g = p.Clip(p.Rescale(g));
  const C compensation = C(p.lamda) * g * g * (w - previous);
  return C(-p.lr) * (g + C(p.wd) * w + compensation);
}
struct Dcasgd : Step<DcasgdParam, 1> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C step = CompensatedStep(p, w, g, s[0]);
    s[0] = w;
    w = w + step;
  }
};

struct DcasgdMomentumParam : Param<DcasgdMomentumParam>, Common {
  double lamda, momentum;
  static void Fields(auto& s) {
    RateField(s), CommonFields(s);
    s.Field("lamda", &DcasgdMomentumParam::lamda).Default(0.04).Describe("Weight of the compensation.");
    s.Field("momentum", &DcasgdMomentumParam::momentum).Default(0.0).Describe("Decay of the moving step.");
  }
};
struct DcasgdMomentum : Step<DcasgdMomentumParam, 2> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    s[0] = C(p.momentum) * s[0] + CompensatedStep(p, w, g, s[1]);
    s[1] = w;
    w = w + s[0];
  }
};

#define ADAPTIVE(name, F, text, ...)           \
  UPDATE(name, F, __VA_ARGS__).describe(text); \
  UPDATE(mp_##name, MultiPrecision<F>, __VA_ARGS__, "weight32").describe(#name " of weight32; weight takes its value.")

ADAPTIVE(adagrad_update, AdaGrad, "g = clip(rescale_grad g); history += g^2; w -= lr (g / sqrt(history + epsilon) + wd w).",
         "history");
ADAPTIVE(adadelta_update, AdaDelta,
         "g = clip(rescale_grad g); grads, steps: moving averages of g^2 and of the square of d = sqrt(steps + epsilon) / "
         "sqrt(grads + epsilon) g; w -= d + wd w.",
         "grads", "steps");
ADAPTIVE(adamax_update, Adamax,
         "g = clip(rescale_grad g + wd w); mean: moving average of g; max = max(beta2 max, |g|); w -= lr mean / max.", "mean",
         "max");
ADAPTIVE(dcasgd_update, Dcasgd, "g = clip(rescale_grad g); d = -lr (g + wd w + lamda g^2 (w - previous)); previous = w; w += d.",
         "previous");
ADAPTIVE(dcasgd_mom_update, DcasgdMomentum,
         "g = clip(rescale_grad g); mom = momentum mom - lr (g + wd w + lamda g^2 (w - previous)); previous = w; w += mom.", "mom",
         "previous");

}  // namespace
}  // namespace gluond::ops
