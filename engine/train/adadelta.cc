// AdaDelta (Zeiler): n <- rho n + (1 - rho) g^2, d = sqrt(s + epsilon) / sqrt(n + epsilon) g,
// s <- rho s + (1 - rho) d^2, w <- w - (d + wd w). It has no learning rate.

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct AdaDeltaParam : Param<AdaDeltaParam>, OptimizerParam {
  double rho, epsilon;
  static void Fields(Schema<AdaDeltaParam>& s) {
    OptimizerFields(s, 0.01);
    s.Field("rho", &AdaDeltaParam::rho).Default(0.9).Range(0, 1).Describe("Decay of both averages.");
    EpsilonField(s, 1e-5);
  }
};

class AdaDelta : public OperatorOptimizer {
 public:
  explicit AdaDelta(const AdaDeltaParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return "adadelta_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    attrs["rho"] = Text(p_.rho);
    attrs["epsilon"] = Text(p_.epsilon);
    return attrs;
  }
  OptimizerStates states() const override { return {{"grads"}, {"steps"}}; }
  StepNumbers numbers(const UpdateRates& at) const override { return {{"wd", at.wd}}; }

 private:
  const AdaDeltaParam p_;
};

}  // namespace

OptimizerCatalog::Entry AdaDeltaEntry() {
  return MakeOptimizerEntry<AdaDelta, AdaDeltaParam>("adadelta",
                                                     "Steps as large as the last ones; learning_rate is "
                                                     "not used.");
}

}  // namespace gluond
