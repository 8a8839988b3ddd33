// Nesterov's accelerated gradient: u = g + wd w, m' = mu m - lr u, w <- w + (mu + 1) m' - mu m.

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct NagParam : Param<NagParam>, OptimizerParam {
  double momentum;
  bool lazy_update;
  static void Fields(Schema<NagParam>& s) {
    OptimizerFields(s, 0.01);
    MomentumField(s);
    LazyField(s);
  }
};

class Nag : public OperatorOptimizer {
 public:
  explicit Nag(const NagParam& p) : OperatorOptimizer(p), momentum_(p.momentum) {}

  std::string op() const override { return momentum_ == 0 ? "sgd_update" : "nag_mom_update"; }
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

OptimizerCatalog::Entry NagEntry() { return MakeOptimizerEntry<Nag, NagParam>("nag", "Nesterov's accelerated gradient."); }

}  // namespace gluond
