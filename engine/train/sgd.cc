// Stochastic gradient descent: w <- (1 - lr wd) w - lr g; with momentum mu: m <- mu m - lr (g + wd w), w <- w + m.

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct SgdParam : Param<SgdParam>, OptimizerParam {
  double momentum;
  bool lazy_update;
  static void Fields(Schema<SgdParam>& s) {
    OptimizerFields(s, 0.01);
    MomentumField(s);
    LazyField(s);
  }
};

class Sgd : public OperatorOptimizer {
 public:
  explicit Sgd(const SgdParam& p) : OperatorOptimizer(p), momentum_(p.momentum) {}

  std::string op() const override { return momentum_ == 0 ? "sgd_update" : "sgd_mom_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    if (momentum_ != 0) attrs["momentum"] = Text(momentum_);
    return attrs;
  }
  OptimizerStates states() const override { return MomentumState(momentum_); }

 private:
  const double momentum_;
};

}  // namespace

OptimizerCatalog::Entry SgdEntry() {
  return MakeOptimizerEntry<Sgd, SgdParam>("sgd", "Stochastic gradient descent, with or without momentum.", {"ccsgd"});
}

}  // namespace gluond
