// Follow the moving leader (Zheng and Kwok), with an average v of g^2, where g = gradient + wd w:
//   d' = (1 - beta1^t) / lr (sqrt(v / (1 - beta2^t)) + epsilon)
//   z <- beta1 z + (1 - beta1) g - (d' - beta1 d) w
//   w <- -z / d'

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct FtmlParam : Param<FtmlParam>, OptimizerParam {
  double beta1, beta2, epsilon;
  static void Fields(Schema<FtmlParam>& s) {
    OptimizerFields(s, 0.01);
    AverageFields(s, 0.6);
    EpsilonField(s);
  }
};

class Ftml : public OperatorOptimizer {
 public:
  explicit Ftml(const FtmlParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return "ftml_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs("clip_grad");
    attrs["beta1"] = Text(p_.beta1);
    attrs["beta2"] = Text(p_.beta2);
    attrs["epsilon"] = Text(p_.epsilon);
    return attrs;
  }
  OptimizerStates states() const override { return {{"d"}, {"v"}, {"z"}}; }
  StepNumbers numbers(const UpdateRates& at) const override {
    return {{"lr", at.lr}, {"wd", at.wd}, {"t", static_cast<double>(at.t)}};
  }

 private:
  const FtmlParam p_;
};

}  // namespace

OptimizerCatalog::Entry FtmlEntry() { return MakeOptimizerEntry<Ftml, FtmlParam>("ftml", "Follow the moving leader."); }

}  // namespace gluond
