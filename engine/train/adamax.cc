// AdaMax (Kingma and Ba): g = gradient + wd w, m <- beta1 m + (1 - beta1) g, u <- max(beta2 u, |g|),
// w <- w - lr / (1 - beta1^t) m / u. A weight whose gradients have all been 0 stays.

#include <cmath>

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct AdamaxParam : Param<AdamaxParam>, OptimizerParam {
  double beta1, beta2;
  static void Fields(Schema<AdamaxParam>& s) {
    OptimizerFields(s, 0.002);
    AverageFields(s);
  }
};

class Adamax : public Optimizer {
 public:
  explicit Adamax(const AdamaxParam& p) : Optimizer(p), p_(p) {}

  OptimizerStates states() const override { return {{"mean"}, {"max"}}; }
  StepNumbers numbers(const UpdateRates& at) const override {
    return {{"lr", at.lr / (1 - std::pow(p_.beta1, static_cast<double>(at.t)))}, {"wd", at.wd}};
  }

 private:
  absl::Status Expand(UpdateGraph& u) const override {
    NodeEntry &mean = u.states[0], &max = u.states[1];
    const NodeEntry g = Decayed(u);
    mean = p_.beta1 * mean + (1 - p_.beta1) * g;
    max = u.Call("_maximum", {p_.beta2 * max, u.Call("abs", {g})});
    u.weight = u.weight - u.Times(mean, "lr") / u.Call("_maximum_scalar", {max}, {{"scalar", "1e-37"}});
    return absl::OkStatus();
  }

  const AdamaxParam p_;
};

}  // namespace

OptimizerCatalog::Entry AdamaxEntry() {
  return MakeOptimizerEntry<Adamax, AdamaxParam>("adamax", "Adam with the largest gradient in place of the variance.");
}

}  // namespace gluond
