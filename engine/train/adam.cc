// Adam (Kingma and Ba): averages m of g and v of g^2, g = gradient + wd w; w <- w - lr_t m / (sqrt(v) + epsilon) with
// lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t), which corrects the averages' start at zero.

#include <cmath>

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct AdamParam : Param<AdamParam>, OptimizerParam {
  double beta1, beta2, epsilon;
  static void Fields(Schema<AdamParam>& s) {
    OptimizerFields(s, 0.001);
    s.Field("beta1", &AdamParam::beta1).Default(0.9).Range(0, 1).Describe("Decay of the gradient's average.");
    s.Field("beta2", &AdamParam::beta2).Default(0.999).Range(0, 1).Describe("Decay of the squared gradient's average.");
    s.Field("epsilon", &AdamParam::epsilon).Default(1e-8).AtLeast(0).Describe("Keeps the quotient finite.");
  }
};

class Adam : public Optimizer {
 public:
  explicit Adam(const AdamParam& p) : Optimizer(p), p_(p) {}

  std::string op() const override { return "adam_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    attrs["beta1"] = Text(p_.beta1);
    attrs["beta2"] = Text(p_.beta2);
    attrs["epsilon"] = Text(p_.epsilon);
    return attrs;
  }
  std::vector<std::string> states() const override { return {"mean", "var"}; }
  StepNumbers numbers(int64_t t, double lr, double wd) const override {
    const double n = static_cast<double>(t);
    return {{"lr", lr * std::sqrt(1 - std::pow(p_.beta2, n)) / (1 - std::pow(p_.beta1, n))}, {"wd", wd}};
  }

 private:
  const AdamParam p_;
};

}  // namespace

OptimizerCatalog::Entry AdamEntry() {
  return MakeOptimizerEntry<Adam, AdamParam>("adam", "Adam; weight decay is part of the gradient.");
}

}  // namespace gluond
