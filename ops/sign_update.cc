// Steps that go by signs, or that follow the leader, with MXNet's formulas; clip(v) limits v to +-clip_gradient where
// that is not negative:
//
//   signsgd_update   w = (1 - lr wd) w - lr sign(g)
//   signum_update    m = momentum m - (1 - momentum) (wd w + clip(rescale g));  w = (1 - lr wd_lh) w + lr sign(m)
//   ftrl_update      g = clip(rescale g);  z += g - (sqrt(n + g^2) - sqrt(n)) w / lr;  n += g^2;
//                    w = |z| > lamda1 ? (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd) : 0
//   ftml_update      g = clip(rescale g + wd w);  v: moving average of g^2;
//                    d' = (1 - beta1^t) / lr (sqrt(v / (1 - beta2^t)) + epsilon);
//                    z = beta1 z + (1 - beta1) g - (d' - beta1 d) w;  w = -z / d';  d = d'

#include <cmath>

#include "ops/kernel/math.h"
#include "ops/optimizer.h"

namespace gluond::ops {
namespace {

template <class C>
HOST_DEVICE C SignOf(C v) {
  return v > 0 ? C(1) : v < 0 ? C(-1) : v == 0 ? C(0) : v;
}  // NaN stays.

struct SignSgdParam : Param<SignSgdParam>, Common {
  static void Fields(auto& s) { RateField(s), CommonFields(s); }
};
struct SignSgd : Step<SignSgdParam, 0> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C*) const {
    w = (1 - C(p.lr) * C(p.wd)) * w - C(p.lr) * SignOf(g);
  }
};

struct SignumParam : Param<SignumParam>, Common {
  double momentum, wd_lh;
  static void Fields(auto& s) {
    RateField(s);
    s.Field("momentum", &SignumParam::momentum).Default(0.0).Describe("Decay of the gradient's average.");
    CommonFields(s);
    s.Field("wd_lh", &SignumParam::wd_lh).Default(0.0).Describe("Weight decay outside of the sign.");
  }
};
struct Signum : Step<SignumParam, 1> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    s[0] = C(p.momentum) * s[0] - C(1 - p.momentum) * (C(p.wd) * w + p.Clip(p.Rescale(g)));
    w = (1 - C(p.lr) * C(p.wd_lh)) * w + C(p.lr) * SignOf(s[0]);
  }
};

struct FtrlParam : Param<FtrlParam>, Common {
  double lamda1, beta;
  static void Fields(auto& s) {
    RateField(s);
    s.Field("lamda1", &FtrlParam::lamda1).Default(0.01).Describe("L1 regularization: below it, w is 0.");
    s.Field("beta", &FtrlParam::beta).Default(1.0).Describe("Added to the learning rate's divisor.");
    CommonFields(s);
  }
};
struct Ftrl : Step<FtrlParam, 2> {
  using Step::Step;
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C clipped = p.Clip(p.Rescale(g)), n = s[1] + clipped * clipped;
    s[0] += clipped - (math::Sqrt(n) - math::Sqrt(s[1])) * w / C(p.lr);
    s[1] = n;
    const C step = (SignOf(s[0]) * C(p.lamda1) - s[0]) / ((C(p.beta) + math::Sqrt(n)) / C(p.lr) + C(p.wd));
    w = math::Abs(s[0]) <= C(p.lamda1) ? C(0) : step;
  }
};

struct FtmlParam : Param<FtmlParam>, Common {
  double beta1, beta2, epsilon;
  int64_t t;
  static void Fields(auto& s) {
    s.template Field<double>("lr", &FtmlParam::lr).Describe("Learning rate.");
    s.Field("beta1", &FtmlParam::beta1).Default(0.6).Describe("Decay of z.");
    s.Field("beta2", &FtmlParam::beta2).Default(0.999).Describe("Decay of the squared gradient's average.");
    s.Field("epsilon", &FtmlParam::epsilon).Default(1e-8).Describe("Keeps the quotient finite.");
    s.Field("t", &FtmlParam::t).AtLeast(1).Describe("Which step this is, from 1.");
    s.template Field<double>("wd", &FtmlParam::wd).Default(0.0).Describe("Weight decay.");
    s.template Field<double>("rescale_grad", &FtmlParam::rescale_grad).Default(1.0).Describe("Multiplies the gradient.");
    s.template Field<double>("clip_grad", &FtmlParam::clip_gradient)
        .Default(-1.0)
        .Describe("Limit of the gradient's magnitude; negative: none.");
  }
};
struct Ftml : Step<FtmlParam, 3> {
  double rest1, rest2;
  template <class X>
  HOST_DEVICE Ftml(const P& param, const X& x)
      : Step(param, x),
        rest1(1 - std::pow(param.beta1, static_cast<double>(param.t))),
        rest2(1 - std::pow(param.beta2, static_cast<double>(param.t))) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    const C clipped = p.Clip(p.Rescale(g) + C(p.wd) * w);
    s[1] = C(p.beta2) * s[1] + C(1 - p.beta2) * clipped * clipped;
    const C d = C(rest1) / C(p.lr) * (math::Sqrt(s[1] / C(rest2)) + C(p.epsilon));
    s[2] = C(p.beta1) * s[2] + C(1 - p.beta1) * clipped - (d - C(p.beta1) * s[0]) * w;
    s[0] = d;
    w = -s[2] / d;
  }
};

UPDATE(signsgd_update, SignSgd).describe("w = (1 - lr wd) w - lr sign(g).");
UPDATE(signum_update, Signum, "mom")
    .describe(
        "mom = momentum mom - (1 - momentum) (wd w + clip(rescale_grad g)); "
        "w = (1 - lr wd_lh) w + lr sign(mom).");
UPDATE(ftrl_update, Ftrl, "z", "n")
    .describe(
        "Follow the regularized leader: g = clip(rescale_grad g); z += g - (sqrt(n + g^2) - sqrt(n)) w / lr; "
        "n += g^2; w = (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd) where |z| > lamda1, else 0.");
UPDATE(ftml_update, Ftml, "d", "v", "z")
    .describe(
        "Follow the moving leader: g = clip(rescale_grad g + wd w); v: moving average of g^2; "
        "d' = (1 - beta1^t) / lr (sqrt(v / (1 - beta2^t)) + epsilon); "
        "z = beta1 z + (1 - beta1) g - (d' - beta1 d) w; w = -z / d'; d = d'.");

}  // namespace
}  // namespace gluond::ops
