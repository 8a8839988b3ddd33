// AdamW (Loshchilov and Hutter): Adam with the weight decay apart from the gradient:
// w <- w - lr (c_t m / (sqrt(v) + epsilon) + wd w), where c_t = sqrt(1 - beta2^t) / (1 - beta1^t).

#include <cmath>

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct AdamWParam : Param<AdamWParam>, OptimizerParam {
  double beta1, beta2, epsilon;
  bool correct_bias;
  static void Fields(Schema<AdamWParam>& s) {
    OptimizerFields(s, 0.001);
    AverageFields(s);
    EpsilonField(s);
    s.Field("correct_bias", &AdamWParam::correct_bias).Default(true).Describe("Corrects the averages' start at zero.");
  }
};

class AdamW : public OperatorOptimizer {
 public:
  explicit AdamW(const AdamWParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return "adamw_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    attrs["beta1"] = Text(p_.beta1);
    attrs["beta2"] = Text(p_.beta2);
    attrs["epsilon"] = Text(p_.epsilon);
    return attrs;
  }
  OptimizerStates states() const override { return {{"mean"}, {"var"}}; }
  // The operator's eta is the learning rate, and its lr the correction.
  StepNumbers numbers(const UpdateRates& at) const override {
    const double n = static_cast<double>(at.t);
    const double correction = p_.correct_bias ? std::sqrt(1 - std::pow(p_.beta2, n)) / (1 - std::pow(p_.beta1, n)) : 1;
    return {{"lr", correction}, {"eta", at.lr}, {"wd", at.wd}};
  }

 private:
  const AdamWParam p_;
};

}  // namespace

OptimizerCatalog::Entry AdamWEntry() {
  return MakeOptimizerEntry<AdamW, AdamWParam>("adamw", "Adam with the weight decay apart from the gradient.");
}

}  // namespace gluond
