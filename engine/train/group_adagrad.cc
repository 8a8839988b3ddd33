// AdaGrad with one history for each row, as embeddings want: h <- h + mean(g^2), w <- w - lr g / sqrt(h + eps).

#include "absl/strings/str_cat.h"

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct GroupAdaGradParam : Param<GroupAdaGradParam>, OptimizerParam {
  double epsilon;
  static void Fields(Schema<GroupAdaGradParam>& s) {
    OptimizerFields(s, 0.01);
    EpsilonField(s, 1e-5, "eps");
  }
};

class GroupAdaGrad : public Optimizer {
 public:
  explicit GroupAdaGrad(const GroupAdaGradParam& p) : Optimizer(p), epsilon_(p.epsilon) {}

  OptimizerStates states() const override { return {{"history", OptimizerState::kRows}}; }

 private:
  absl::Status Expand(UpdateGraph& u) const override {
    if (u.shape.ndim() != 2) {
      return absl::InvalidArgumentError(absl::StrCat("groupadagrad updates matrices only, and parameter '", u.name,
                                                     "' has the shape ", u.shape.ToString(),
                                                     "; use another optimizer, or set the parameter's grad_req to null"));
    }
    const NodeEntry g = Scaled(u);
    u.states[0] = u.states[0] + u.Call("mean", {g * g}, {{"axis", "1"}, {"keepdims", "True"}});
    const NodeEntry root = u.Call("sqrt", {u.states[0] + epsilon_});
    u.weight = u.weight - u.Times(u.Call("broadcast_div", {g, root}), "lr");
    return absl::OkStatus();
  }

  const double epsilon_;
};

}  // namespace

OptimizerCatalog::Entry GroupAdaGradEntry() {
  OptimizerCatalog::Entry entry = MakeOptimizerEntry<GroupAdaGrad, GroupAdaGradParam>(
      "groupadagrad", "AdaGrad for matrices, with one history for each row, and no weight decay.");
  entry.make = [make = std::move(entry.make)](const AttrDict& attrs) -> absl::StatusOr<std::unique_ptr<Optimizer>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, make(attrs));
    if (optimizer->param().wd == 0) return optimizer;
    return absl::InvalidArgumentError(absl::StrCat("wd is ", optimizer->param().wd, "; want 0"));
  };
  return entry;
}

}  // namespace gluond
