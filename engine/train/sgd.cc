// Stochastic gradient descent: w <- (1 - lr wd) w - lr g; with momentum mu: m <- mu m - lr (g + wd w), w <- w + m.

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct SgdParam : Param<SgdParam>, OptimizerParam {
  double momentum;
  static void Fields(Schema<SgdParam>& s) {
    OptimizerFields(s, 0.01);
    s.Field("momentum", &SgdParam::momentum).Default(0.0).AtLeast(0).Describe("Share of the step before.");
  }
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdParam& p) : Optimizer(p), momentum_(p.momentum) {}

  std::string op() const override { return momentum_ == 0 ? "sgd_update" : "sgd_mom_update"; }
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

OptimizerCatalog::Entry SgdEntry() {
  return MakeOptimizerEntry<Sgd, SgdParam>("sgd", "Stochastic gradient descent, with or without momentum.");
}

}  // namespace gluond
