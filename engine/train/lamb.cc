// LAMB (You et al., 2019), with averages m of g and v of g^2, corrected for their start at zero:
//   d = m / (sqrt(v) + epsilon) + wd w, r = |w| / |d|, w <- w - lr r d
// In r, |w| is kept within [lower_bound, upper_bound]. Where a norm is 0, r is 1.

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct LambParam : Param<LambParam>, OptimizerParam {
  double beta1, beta2, epsilon;
  std::optional<double> lower_bound, upper_bound;
  bool bias_correction;
  static void Fields(Schema<LambParam>& s) {
    OptimizerFields(s, 0.001);
    AverageFields(s);
    EpsilonField(s, 1e-6);
    s.Field("lower_bound", &LambParam::lower_bound).Default(std::nullopt).Describe("Least norm; None or 0: none.");
    s.Field("upper_bound", &LambParam::upper_bound).Default(std::nullopt).Describe("Largest norm; None or 0: none.");
    s.Field("bias_correction", &LambParam::bias_correction).Default(true).Describe("Corrects the averages' start at zero.");
  }
};

class Lamb : public Optimizer {
 public:
  explicit Lamb(const LambParam& p) : Optimizer(p), p_(p) {}

  OptimizerStates states() const override { return {{"mean"}, {"var"}}; }
  StepNumbers numbers(const UpdateRates& at) const override {
    return {{"lr", at.lr}, {"wd", at.wd}, {"t", static_cast<double>(at.t)}};
  }

 private:
  absl::Status Expand(UpdateGraph& u) const override {
    const NodeEntry direction = u.CallUpdate("lamb_update_phase1", {u.weight, u.grad, u.states[0], u.states[1]},
                                             {{"beta1", Text(p_.beta1)},
                                              {"beta2", Text(p_.beta2)},
                                              {"epsilon", Text(p_.epsilon)},
                                              {"bias_correction", p_.bias_correction ? "True" : "False"},
                                              {"clip_gradient", Text(p_.clips() ? *p_.clip_gradient : -1)}},
                                             {"wd", "t", "rescale_grad"});
    const auto norm = [&u](const NodeEntry& x) { return u.Call("norm", {x}); };
    const auto bound = [](std::optional<double> b) { return Text(b.value_or(0) == 0 ? -1 : *b); };
    u.weight = u.CallUpdate("lamb_update_phase2", {u.weight, direction, norm(u.weight), norm(direction)},
                            {{"lower_bound", bound(p_.lower_bound)}, {"upper_bound", bound(p_.upper_bound)}}, {"lr"});
    return absl::OkStatus();
  }

  const LambParam p_;
};

}  // namespace

OptimizerCatalog::Entry LambEntry() {
  return MakeOptimizerEntry<Lamb, LambParam>("lamb", "Adam whose step for each weight has the weight's norm.");
}

}  // namespace gluond
