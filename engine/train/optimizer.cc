#include "engine/train/optimizer.h"

#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/train/optimizers.h"

namespace gluond {

AttrDict OptimizerParam::UpdateAttrs(const char* clip_name) const { return {{clip_name, Text(clips() ? *clip_gradient : -1)}}; }

absl::Status Optimizer::Build(UpdateGraph& u) const {
  if (SizeOf(u.dtype) > 2) return Expand(u);
  const DType dtype = u.dtype;
  const NodeEntry weight = u.weight;
  u.dtype = DType::kFloat32;
  u.weight = u.Cast(weight, u.dtype);
  u.grad = u.Cast(u.grad, u.dtype);
  if (u.weight32) {  // A weight that is no copy of it has been set since the last step.
    u.weight = u.Call("where", {u.Call("_equal", {u.Cast(u.weight32, dtype), weight}), u.weight32, u.weight});
  }
  RETURN_IF_ERROR(Expand(u));
  if (u.weight32) u.weight32 = u.weight;
  u.weight = u.Cast(u.weight, dtype);
  return absl::OkStatus();
}

NodeEntry Optimizer::Clipped(UpdateGraph& u, const NodeEntry& g) const {
  if (!param_.clips()) return g;
  const double limit = *param_.clip_gradient;
  return u.Call("clip", {g}, {{"a_min", Text(-limit)}, {"a_max", Text(limit)}});
}

void OperatorOptimizer::Call(UpdateGraph& u, const std::string& op, bool with_weight32) const {
  std::vector<NodeEntry> inputs = {u.weight, u.grad};
  inputs.insert(inputs.end(), u.states.begin(), u.states.end());
  if (with_weight32) inputs.push_back(u.weight32);
  std::vector<std::string> names = {"rescale_grad"};
  for (const StepNumber& number : numbers({.t = 1, .learning_rate = 0, .lr = 0, .wd = 0})) names.push_back(number.name);
  u.weight = u.CallUpdate(op, std::move(inputs), attrs(), std::move(names));
}

absl::Status OperatorOptimizer::Build(UpdateGraph& u) const {
  if (!u.weight32) return Expand(u);  // The operators take states of another type than the weight's.
  const std::string of_weight32 = absl::StrCat("mp_", op());
  if (Op::Find(of_weight32) == nullptr) return Optimizer::Build(u);
  Call(u, of_weight32, /*with_weight32=*/true);
  return absl::OkStatus();
}

absl::Status OperatorOptimizer::Expand(UpdateGraph& u) const {
  Call(u, op(), /*with_weight32=*/false);
  return absl::OkStatus();
}

const OptimizerCatalog& Optimizers() {
  static const OptimizerCatalog& catalog =
      *new OptimizerCatalog("optimizer", {SgdEntry(), NagEntry(), SignumEntry(), SgldEntry(), DcasgdEntry(), LarsEntry(),
                                          AdamEntry(), AdamWEntry(), AdamaxEntry(), NadamEntry(), FtmlEntry(), LambEntry(),
                                          AdaGradEntry(), GroupAdaGradEntry(), AdaDeltaEntry(), RmsPropEntry(), FtrlEntry()});
  return catalog;
}

}  // namespace gluond
