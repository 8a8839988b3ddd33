// Adam (Kingma and Ba), with averages m of g and v of g^2, where g = gradient + wd w:
//   w <- w - lr_t m / (sqrt(v) + epsilon), lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t)
// The rate lr_t corrects the averages' start at zero.

#include <cmath>

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct AdamParam : Param<AdamParam>, OptimizerParam {
  double beta1, beta2, epsilon;
  bool lazy_update;
  static void Fields(Schema<AdamParam>& s) {
    OptimizerFields(s, 0.001);
    AverageFields(s);
    EpsilonField(s);
    LazyField(s);
  }
};

class Adam : public OperatorOptimizer {
 public:
  explicit Adam(const AdamParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return "adam_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    attrs["beta1"] = Text(p_.beta1);
    attrs["beta2"] = Text(p_.beta2);
    attrs["epsilon"] = Text(p_.epsilon);
    return attrs;
  }
  OptimizerStates states() const override { return {{"mean"}, {"var"}}; }
  StepNumbers numbers(const UpdateRates& at) const override {
    const double n = static_cast<double>(at.t);
    return {{"lr", at.lr * (std::sqrt(1 - std::pow(p_.beta2, n)) / (1 - std::pow(p_.beta1, n)))}, {"wd", at.wd}};
  }

 private:
  const AdamParam p_;
};

}  // namespace

OptimizerCatalog::Entry AdamEntry() {
  return MakeOptimizerEntry<Adam, AdamParam>("adam", "Adam; weight decay is part of the gradient.");
}

}  // namespace gluond
