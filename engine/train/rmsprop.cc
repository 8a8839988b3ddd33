// RMSProp (Tieleman and Hinton): n <- (1 - gamma1) g^2 + gamma1 n, w <- w - lr g / sqrt(n + epsilon). Centered
// (Graves): a is the average of g, d <- gamma2 d - lr g / sqrt(n - a^2 + epsilon), w <- w + d. g includes wd w.

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct RmsPropParam : Param<RmsPropParam>, OptimizerParam {
  double gamma1, gamma2, epsilon;
  std::optional<double> clip_weights;
  bool centered;
  static void Fields(Schema<RmsPropParam>& s) {
    OptimizerFields(s, 0.001);
    s.Field("gamma1", &RmsPropParam::gamma1).Default(0.9).Range(0, 1).Describe("Decay of the averages.");
    s.Field("gamma2", &RmsPropParam::gamma2).Default(0.9).Range(0, 1).Describe("Momentum, when centered.");
    EpsilonField(s);
    s.Field("centered", &RmsPropParam::centered).Default(false).Describe("Graves's version.");
    s.Field("clip_weights", &RmsPropParam::clip_weights)
        .Default(std::nullopt)
        .Describe("Each weight is cut to this magnitude; None or 0: not cut.");
  }
};

class RmsProp : public OperatorOptimizer {
 public:
  explicit RmsProp(const RmsPropParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return p_.centered ? "rmspropalex_update" : "rmsprop_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    attrs["gamma1"] = Text(p_.gamma1);
    if (p_.centered) attrs["gamma2"] = Text(p_.gamma2);
    attrs["epsilon"] = Text(p_.epsilon);
    attrs["clip_weights"] = Text(p_.clip_weights.value_or(0) > 0 ? *p_.clip_weights : -1);
    return attrs;
  }
  OptimizerStates states() const override {
    return p_.centered ? OptimizerStates{{"n"}, {"g"}, {"delta"}} : OptimizerStates{{"n"}};
  }

 private:
  const RmsPropParam p_;
};

}  // namespace

OptimizerCatalog::Entry RmsPropEntry() {
  return MakeOptimizerEntry<RmsProp, RmsPropParam>("rmsprop", "RMSProp, plain or centered.");
}

}  // namespace gluond
