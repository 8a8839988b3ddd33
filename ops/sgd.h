// The steps of stochastic gradient descent, of one weight and of several.

#ifndef OPS_SGD_H_
#define OPS_SGD_H_

#include "ops/optimizer.h"

namespace gluond::ops {

struct SgdParam : Param<SgdParam>, Common {
  bool lazy_update;
  static void Fields(Schema<SgdParam>& s) { RateField(s), CommonFields(s), LazyField(s); }
};
struct Sgd {
  static constexpr int kStates = 0;
  static constexpr bool kMultiPrecision = false;
  using P = SgdParam;
  Common p;
  explicit Sgd(const P& param) : p(param) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C*) const {
    w = (1 - C(p.lr) * C(p.wd)) * w - C(p.lr) * p.Clip(p.Rescale(g));
  }
};

struct MomentumParam : Param<MomentumParam>, Common {
  double momentum;
  bool lazy_update;
  static void Fields(Schema<MomentumParam>& s) {
    RateField(s);
    s.Field("momentum", &MomentumParam::momentum).Default(0.0).Describe("Decay of the moving step.");
    CommonFields(s), LazyField(s);
  }
};
struct SgdMomentum {
  static constexpr int kStates = 1;
  static constexpr bool kMultiPrecision = false;
  using P = MomentumParam;
  Common p;
  double momentum;
  explicit SgdMomentum(const P& param) : p(param), momentum(param.momentum) {}
  template <class C>
  HOST_DEVICE void operator()(C& w, C g, C* s) const {
    s[0] = C(momentum) * s[0] - C(p.lr) * C(p.wd) * w - C(p.lr) * p.Clip(p.Rescale(g));
    w += s[0];
  }
};

}  // namespace gluond::ops

#endif  // OPS_SGD_H_
