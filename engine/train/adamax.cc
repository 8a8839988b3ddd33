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

class Adamax : public OperatorOptimizer {
 public:
  explicit Adamax(const AdamaxParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return "adamax_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    attrs["beta1"] = Text(p_.beta1);
    attrs["beta2"] = Text(p_.beta2);
    return attrs;
  }
  OptimizerStates states() const override { return {{"mean"}, {"max"}}; }
  StepNumbers numbers(const UpdateRates& at) const override {
    return {{"lr", at.lr / (1 - std::pow(p_.beta1, static_cast<double>(at.t)))}, {"wd", at.wd}};
  }

 private:
  const AdamaxParam p_;
};

}  // namespace

OptimizerCatalog::Entry AdamaxEntry() {
  return MakeOptimizerEntry<Adamax, AdamaxParam>("adamax", "Adam with the largest gradient in place of the variance.");
}

}  // namespace gluond
