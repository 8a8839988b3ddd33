// Nesterov's accelerated gradient: u = g + wd w, m' = mu m - lr u, w <- w + (mu + 1) m' - mu m.

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct NagParam : Param<NagParam>, OptimizerParam {
  double momentum;
  static void Fields(Schema<NagParam>& s) {
    OptimizerFields(s, 0.01);
    s.Field("momentum", &NagParam::momentum).Default(0.0).AtLeast(0).Describe("Share of the step before.");
  }
};

class Nag : public Optimizer {
 public:
  explicit Nag(const NagParam& p) : Optimizer(p), momentum_(p.momentum) {}

  std::string op() const override { return momentum_ == 0 ? "sgd_update" : "nag_mom_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    if (momentum_ != 0) attrs["momentum"] = Text(momentum_);
    return attrs;
  }
  std::vector<std::string> states() const override {
    return momentum_ == 0 ? std::vector<std::string>{} : std::vector<std::string>{"mom"};
  }

 private:
  const double momentum_;
};

}  // namespace

OptimizerCatalog::Entry NagEntry() {
  return MakeOptimizerEntry<Nag, NagParam>("nag", "Nesterov's accelerated gradient.");
}

}  // namespace gluond
