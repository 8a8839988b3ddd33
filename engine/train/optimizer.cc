#include "engine/train/optimizer.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
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

std::vector<StateSignature> StatesOf(const Optimizer& optimizer, const Shape& shape, DType dtype) {
  const DType type = HasSixteenBits(dtype) ? DType::kFloat32 : dtype;
  std::vector<StateSignature> states;
  for (const OptimizerState& state : optimizer.states()) {
    switch (state.form) {
      case OptimizerState::kLikeWeight: states.push_back({state.name, shape, type}); break;
      case OptimizerState::kRows: states.push_back({state.name, {shape.ndim() > 0 ? shape[0] : 1, 1}, type}); break;
      case OptimizerState::kNumber: states.push_back({state.name, {1}, DType::kFloat64}); break;
    }
  }
  if (HasWeight32(optimizer, dtype)) states.push_back({kWeight32, shape, type});
  return states;
}

StepNumbers NumbersOf(const Optimizer& optimizer, const UpdateRates& at, double rescale) {
  StepNumbers numbers = optimizer.numbers(at);
  numbers.push_back({"rescale_grad", rescale});
  return numbers;
}

absl::StatusOr<std::vector<NumberPlace>> NumberPlaces(const JointUpdate& joint, const Optimizer& optimizer) {
  const StepNumbers known = NumbersOf(optimizer, {.t = 1, .learning_rate = 0, .lr = 0, .wd = 0}, 1);
  std::vector<NumberPlace> places;
  for (const JointUpdate::Place& place : joint.places()) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const StepNumber& n) { return place.number == n.name; });
    if (found == known.end()) return absl::InternalError(absl::StrCat("the optimizer has no number '", place.number, "'"));
    places.push_back({place.parameter, static_cast<size_t>(found - known.begin()), place.type});
  }
  return places;
}

void WriteNumbers(absl::Span<const NumberPlace> places, absl::FunctionRef<StepNumbers(size_t)> of, char* to) {
  StepNumbers of_parameter;
  size_t known = std::numeric_limits<size_t>::max();  // The parameter whose numbers these are.
  for (const NumberPlace& place : places) {
    if (place.parameter != known) of_parameter = of(known = place.parameter);
    ConvertValues(&of_parameter[place.index].value, DType::kFloat64, to, place.type, 1);
    to += sizeof(double);
  }
}

const OptimizerCatalog& Optimizers() {
  static const OptimizerCatalog& catalog =
      *new OptimizerCatalog("optimizer", {SgdEntry(), NagEntry(), SignumEntry(), SgldEntry(), DcasgdEntry(), LarsEntry(),
                                          AdamEntry(), AdamWEntry(), AdamaxEntry(), NadamEntry(), FtmlEntry(), LambEntry(),
                                          AdaGradEntry(), GroupAdaGradEntry(), AdaDeltaEntry(), RmsPropEntry(), FtrlEntry()});
  return catalog;
}

}  // namespace gluond
