// LARS (You et al., 2017): SGD with momentum, whose rate for each weight is scaled by eta |w| / (|g| + wd |w| + eps).
// The rate is not scaled where a norm is 0, nor for biases, gammas and betas. When the trainer's rate changes,
// momentum_correction scales the momentum likewise.

#include "absl/strings/match.h"

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct LarsParam : Param<LarsParam>, OptimizerParam {
  double momentum, eta, epsilon;
  bool lazy_update, momentum_correction;
  static void Fields(Schema<LarsParam>& s) {
    OptimizerFields(s, 0.01);
    MomentumField(s);
    LazyField(s);
    s.Field("eta", &LarsParam::eta).Default(0.001).Describe("A step's share of the weight's norm.");
    EpsilonField(s, 0, "eps");
    s.Field("momentum_correction", &LarsParam::momentum_correction)
        .Default(true)
        .Describe("The momentum follows the learning rate.");
  }
};

class Lars : public Optimizer {
 public:
  explicit Lars(const LarsParam& p) : Optimizer(p), p_(p) {}

  OptimizerStates states() const override {
    OptimizerStates states = MomentumState(p_.momentum);
    if (corrects()) states.push_back({"last_lr", OptimizerState::kNumber});
    return states;
  }
  StepNumbers numbers(const UpdateRates& at) const override {
    return {{"lr", at.lr}, {"wd", at.wd}, {"learning_rate", at.learning_rate}};
  }

 private:
  bool corrects() const { return p_.momentum != 0 && p_.momentum_correction; }

  absl::Status Expand(UpdateGraph& u) const override {
    NodeEntry step = u.Times(Scaled(u) + u.Times(u.weight, "wd"), "lr");
    const auto ends_with = [&u](const char* end) { return absl::EndsWith(u.name, end); };
    if (!ends_with("gamma") && !ends_with("beta") && !ends_with("bias")) step = u.TimesElement(step, Ratio(u));
    if (p_.momentum == 0) {
      u.weight = u.weight - step;
      return absl::OkStatus();
    }
    u.states[0] = Decayed(u, u.states[0]) - step;
    u.weight = u.weight + u.states[0];
    return absl::OkStatus();
  }

  // In float32, of shape [1].
  NodeEntry Ratio(UpdateGraph& u) const {
    const auto norm = [&u](const NodeEntry& x) { return u.Call("norm", {u.Cast(x, DType::kFloat32)}); };
    const auto number = [&u](const char* name) { return u.Number(name, DType::kFloat32); };
    const NodeEntry w = norm(u.weight), g = norm(u.grad) * number("rescale_grad");
    const NodeEntry ratio = p_.eta * w / (g + w * number("wd") + p_.epsilon + 1e-30);
    const NodeEntry defined = u.Call("_greater_scalar", {w * g}, {{"scalar", "0"}});
    return u.Call("where", {defined, ratio, u.Call("ones_like", {ratio})});
  }

  // The momentum's share that stays. No last rate is known at the first step.
  NodeEntry Decayed(UpdateGraph& u, const NodeEntry& momentum) const {
    if (!corrects()) return p_.momentum * momentum;
    NodeEntry& last = u.states[1];
    const NodeEntry learning_rate = u.Number("learning_rate", DType::kFloat64);
    const NodeEntry share = u.Call("where", {last, p_.momentum * (learning_rate / last), 0.0 * last + p_.momentum});
    last = learning_rate;
    return u.TimesElement(momentum, share);
  }

  const LarsParam p_;
};

}  // namespace

OptimizerCatalog::Entry LarsEntry() {
  return MakeOptimizerEntry<Lars, LarsParam>("lars", "Momentum whose rate follows the norms of weight and gradient.");
}

}  // namespace gluond
