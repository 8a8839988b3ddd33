// Nadam (Dozat): Adam with Nesterov's momentum, which warms up: mu_t = beta1 (1 - 0.96^(t schedule_decay) / 2), and M_t
// is the product of mu_1 to mu_t. With averages m of g = gradient + wd w, and v of g^2:
//
//   w <- w - lr ((1 - mu_t) / (1 - M_t) g + mu_t+1 / (1 - M_t mu_t+1) m) / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// The product is a state, float64, of each parameter. MXNet has one for all parameters, which counts each of their
// updates.

#include <cmath>

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct NadamParam : Param<NadamParam>, OptimizerParam {
  double beta1, beta2, epsilon, schedule_decay;
  static void Fields(Schema<NadamParam>& s) {
    OptimizerFields(s, 0.001);
    AverageFields(s);
    EpsilonField(s);
    s.Field("schedule_decay", &NadamParam::schedule_decay).Default(0.004).AtLeast(0).Describe("How fast the momentum warms up.");
  }
};

class Nadam : public Optimizer {
 public:
  explicit Nadam(const NadamParam& p) : Optimizer(p), p_(p) {}

  OptimizerStates states() const override { return {{"mean"}, {"var"}, {"m_schedule", OptimizerState::kNumber}}; }
  StepNumbers numbers(const UpdateRates& at) const override {
    const double n = static_cast<double>(at.t), now = MomentumAt(n);
    return {{"lr", at.lr},
            {"wd", at.wd},
            {"now", now},
            {"rest", 1 - now},
            {"then", MomentumAt(n + 1)},
            {"var_rest", 1 - std::pow(p_.beta2, n)}};
  }

 private:
  double MomentumAt(double t) const { return p_.beta1 * (1 - 0.5 * std::pow(0.96, t * p_.schedule_decay)); }

  absl::Status Expand(UpdateGraph& u) const override {
    NodeEntry &mean = u.states[0], &var = u.states[1], &product = u.states[2];
    const NodeEntry g = Decayed(u);
    mean = p_.beta1 * mean + (1 - p_.beta1) * g;
    var = p_.beta2 * var + (1 - p_.beta2) * g * g;
    // A product of 0 is that of no step, so that no product may become so small.
    const auto number = [&u](const char* name) { return u.Number(name, DType::kFloat64); };
    const NodeEntry next = u.Call("_maximum_scalar", {product * number("now")}, {{"scalar", "1e-300"}});
    product = u.Call("where", {product, next, number("now")});
    const NodeEntry of_g = number("rest") / (1.0 - product);
    const NodeEntry of_mean = number("then") / (1.0 - product * number("then"));
    const NodeEntry direction = u.TimesElement(g, of_g) + u.TimesElement(mean, of_mean);
    const NodeEntry root = u.Call("sqrt", {u.WithNumber("broadcast_div", var, "var_rest")});
    u.weight = u.weight - u.Times(direction, "lr") / (root + p_.epsilon);
    return absl::OkStatus();
  }

  const NadamParam p_;
};

}  // namespace

OptimizerCatalog::Entry NadamEntry() { return MakeOptimizerEntry<Nadam, NadamParam>("nadam", "Adam with Nesterov's momentum."); }

}  // namespace gluond
