// AdaGrad (Duchi et al.): h <- h + g^2, w <- w - lr (g / sqrt(h + eps) + wd w).

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct AdaGradParam : Param<AdaGradParam>, OptimizerParam {
  double epsilon;
  static void Fields(Schema<AdaGradParam>& s) {
    OptimizerFields(s, 0.01);
    EpsilonField(s, 1e-7, "eps");
  }
};

class AdaGrad : public Optimizer {
 public:
  explicit AdaGrad(const AdaGradParam& p) : Optimizer(p), epsilon_(p.epsilon) {}

  OptimizerStates states() const override { return {{"history"}}; }

 private:
  absl::Status Expand(UpdateGraph& u) const override {
    const NodeEntry g = Scaled(u);
    u.states[0] = u.states[0] + g * g;
    const NodeEntry step = g / u.Call("sqrt", {u.states[0] + epsilon_});
    u.weight = u.weight - u.Times(step + u.Times(u.weight, "wd"), "lr");
    return absl::OkStatus();
  }

  const double epsilon_;
};

}  // namespace

OptimizerCatalog::Entry AdaGradEntry() {
  return MakeOptimizerEntry<AdaGrad, AdaGradParam>("adagrad", "Steps that shrink with the sum of squared gradients.");
}

}  // namespace gluond
