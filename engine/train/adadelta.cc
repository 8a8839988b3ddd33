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

class AdaDelta : public Optimizer {
 public:
  explicit AdaDelta(const AdaDeltaParam& p) : Optimizer(p), p_(p) {}

  OptimizerStates states() const override { return {{"grads"}, {"steps"}}; }

 private:
  absl::Status Expand(UpdateGraph& u) const override {
    NodeEntry &grads = u.states[0], &steps = u.states[1];
    const NodeEntry g = Scaled(u);
    grads = p_.rho * grads + (1 - p_.rho) * g * g;
    const auto root = [&](const NodeEntry& x) { return u.Call("sqrt", {x + p_.epsilon}); };
    const NodeEntry step = root(steps) / root(grads) * g;
    steps = p_.rho * steps + (1 - p_.rho) * step * step;
    u.weight = u.weight - (step + u.Times(u.weight, "wd"));
    return absl::OkStatus();
  }

  const AdaDeltaParam p_;
};

}  // namespace

OptimizerCatalog::Entry AdaDeltaEntry() {
  return MakeOptimizerEntry<AdaDelta, AdaDeltaParam>("adadelta",
                                                     "Steps as large as the last ones; learning_rate is "
                                                     "not used.");
}

}  // namespace gluond
