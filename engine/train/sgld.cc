// Stochastic gradient Langevin dynamics (Welling and Teh): w <- w + noise - lr / 2 (g + wd w), where the noise is
// normal with variance lr.

#include <cmath>

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct SgldParam : Param<SgldParam>, OptimizerParam {
  static void Fields(Schema<SgldParam>& s) { OptimizerFields(s, 0.01); }
};

class Sgld : public Optimizer {
 public:
  explicit Sgld(const SgldParam& p) : Optimizer(p) {}

  StepNumbers numbers(const UpdateRates& at) const override {
    return {{"deviation", std::sqrt(at.lr)}, {"half_lr", at.lr / 2}, {"wd", at.wd}};
  }

 private:
  absl::Status Expand(UpdateGraph& u) const override {
    const NodeEntry noise = u.Times(u.Call("_random_normal_like", {u.weight}), "deviation");
    u.weight = u.weight + (noise - u.Times(Scaled(u) + u.Times(u.weight, "wd"), "half_lr"));
    return absl::OkStatus();
  }
};

}  // namespace

OptimizerCatalog::Entry SgldEntry() {
  return MakeOptimizerEntry<Sgld, SgldParam>("sgld", "Stochastic gradient Langevin dynamics: steps with noise.");
}

}  // namespace gluond
