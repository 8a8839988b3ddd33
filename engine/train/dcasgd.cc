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

class Dcasgd : public Optimizer {
 public:
  explicit Dcasgd(const DcasgdParam& p) : Optimizer(p), p_(p) {}

  OptimizerStates states() const override {
    return p_.momentum == 0 ? OptimizerStates{{"previous"}} : OptimizerStates{{"mom"}, {"previous"}};
  }
  // Nothing is to compensate at the first step, which finds zeros in `previous`.
  StepNumbers numbers(const UpdateRates& at) const override {
    return {{"minus_lr", -at.lr}, {"wd", at.wd}, {"lamda", at.t == 1 ? 0 : p_.lamda}};
  }

 private:
  absl::Status Expand(UpdateGraph& u) const override {
    const NodeEntry g = Scaled(u), weight = u.weight;
    NodeEntry& previous = u.states.back();
    const NodeEntry compensation = u.Times(g, "lamda") * g * (weight - previous);
    NodeEntry step = u.Times(g + u.Times(weight, "wd") + compensation, "minus_lr");
    if (p_.momentum != 0) step = u.states[0] = p_.momentum * u.states[0] + step;
    previous = weight;
    u.weight = weight + step;
    return absl::OkStatus();
  }

  const DcasgdParam p_;
};

}  // namespace

OptimizerCatalog::Entry DcasgdEntry() {
  return MakeOptimizerEntry<Dcasgd, DcasgdParam>("dcasgd", "Delay-compensated stochastic gradient descent.");
}

}  // namespace gluond
