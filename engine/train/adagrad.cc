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

class AdaGrad : public OperatorOptimizer {
 public:
  explicit AdaGrad(const AdaGradParam& p) : OperatorOptimizer(p), epsilon_(p.epsilon) {}

  std::string op() const override { return "adagrad_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    attrs["epsilon"] = Text(epsilon_);
    return attrs;
  }
  OptimizerStates states() const override { return {{"history"}}; }

 private:
  const double epsilon_;
};

}  // namespace

OptimizerCatalog::Entry AdaGradEntry() {
  return MakeOptimizerEntry<AdaGrad, AdaGradParam>("adagrad", "Steps that shrink with the sum of squared gradients.");
}

}  // namespace gluond
