// Delay-compensated SGD (Zheng et al.), where `previous` is w before the last step:
//   m <- mu m - lr (g + wd w + lamda g^2 (w - previous)), w <- w + m
// Without momentum, mu is 0.

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct DcasgdParam : Param<DcasgdParam>, OptimizerParam {
  double momentum, lamda;
  static void Fields(Schema<DcasgdParam>& s) {
    OptimizerFields(s, 0.01);
    MomentumField(s);
    s.Field("lamda", &DcasgdParam::lamda).Default(0.04).Describe("Weight of the compensation.");
  }
};

class Dcasgd : public OperatorOptimizer {
 public:
  explicit Dcasgd(const DcasgdParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return p_.momentum == 0 ? "dcasgd_update" : "dcasgd_mom_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    if (p_.momentum != 0) attrs["momentum"] = Text(p_.momentum);
    return attrs;
  }
  OptimizerStates states() const override {
    return p_.momentum == 0 ? OptimizerStates{{"previous"}} : OptimizerStates{{"mom"}, {"previous"}};
  }
  // Nothing is to compensate at the first step, which finds zeros in `previous`.
  StepNumbers numbers(const UpdateRates& at) const override {
    return {{"lr", at.lr}, {"wd", at.wd}, {"lamda", at.t == 1 ? 0 : p_.lamda}};
  }

 private:
  const DcasgdParam p_;
};

}  // namespace

OptimizerCatalog::Entry DcasgdEntry() {
  return MakeOptimizerEntry<Dcasgd, DcasgdParam>("dcasgd", "Delay-compensated stochastic gradient descent.");
}

}  // namespace gluond
