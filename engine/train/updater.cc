#include "engine/train/updater.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

constexpr char kWeight32[] = "weight32";

bool HasSixteenBits(DType type) { return type == DType::kFloat16 || type == DType::kBfloat16; }
DType StateType(const Parameter& p) { return HasSixteenBits(p.dtype) ? DType::kFloat32 : p.dtype; }

}  // namespace

Updater::Updater(Model& model, std::unique_ptr<Optimizer> optimizer)
    : model_(model), lane_(*model.options().lane), optimizer_(std::move(optimizer)), op_(optimizer_->op()),
      state_names_(optimizer_->states()), slots_(model.parameters().size()) {}

bool Updater::HasWeight32(const Parameter& p) const {
  return optimizer_->param().multi_precision && HasSixteenBits(p.dtype);
}

std::vector<std::string> Updater::StateNames(const Parameter& p) const {
  std::vector<std::string> names = state_names_;
  if (HasWeight32(p)) names.push_back(kWeight32);
  return names;
}

absl::Status Updater::AllocateStates(size_t parameter) {
  Slot& slot = slots_[parameter];
  const Parameter& p = model_.parameters()[parameter];
  while (slot.states.size() < StateNames(p).size()) {
    ASSIGN_OR_RETURN(Tensor state, Tensor::Empty(*model_.options().allocator, p.shape, StateType(p)));
    RETURN_IF_ERROR(lane_.driver().Zero(state.data(), state.bytes(), lane_.stream()));
    slot.states.push_back(std::move(state));
  }
  return absl::OkStatus();
}

absl::Status Updater::PrepareCall(size_t parameter) {
  RETURN_IF_ERROR(AllocateStates(parameter));
  Slot& slot = slots_[parameter];
  const Parameter& p = model_.parameters()[parameter];
  std::vector<Tensor> in = {p.data, p.grad};
  in.insert(in.end(), slot.states.begin(), slot.states.end());
  const std::string op = absl::StrCat(HasWeight32(p) ? "mp_" : "", op_);
  ASSIGN_OR_RETURN(slot.call, OpCall::Make(op, optimizer_->attrs(), std::move(in), p.data, lane_));
  slot.grad = p.grad.data();
  return absl::OkStatus();
}

absl::Status Updater::Update(absl::Span<const size_t> parameters, double lr, double rescale) {
  // Memory for all first: no parameter changes when there is not enough.
  for (size_t i : parameters) {
    if (slots_[i].call == nullptr || slots_[i].grad != model_.parameters()[i].grad.data()) {
      RETURN_IF_ERROR(PrepareCall(i));
    }
  }
  for (size_t i : parameters) {
    Slot& slot = slots_[i];
    const Parameter& p = model_.parameters()[i];
    const int64_t t = slot.updates + 1;
    for (const StepNumber& number : optimizer_->numbers(t, lr * p.lr_mult, optimizer_->param().wd * p.wd_mult)) {
      RETURN_IF_ERROR(slot.call->Set(number.name, number.value));
    }
    RETURN_IF_ERROR(slot.call->Set("rescale_grad", rescale));
    RETURN_IF_ERROR(Annotate(slot.call->Run(), absl::StrCat("parameter '", p.name, "'")));
    slot.updates = t;
  }
  return lane_.driver().Synchronize(lane_.stream());  // Who hears of a step's success can rely on it.
}

absl::Status Updater::PrepareNorm(absl::Span<const size_t> parameters) {
  bool same = norm_call_ != nullptr && norm_of_.size() == parameters.size();
  for (size_t k = 0; same && k < parameters.size(); ++k) {
    same = norm_of_[k] == std::pair(parameters[k],
                                    static_cast<const void*>(model_.parameters()[parameters[k]].grad.data()));
  }
  if (same) return absl::OkStatus();
  norm_call_.reset();
  norm_of_.clear();
  std::vector<Tensor> gradients;
  for (size_t i : parameters) {
    gradients.push_back(model_.parameters()[i].grad);
    norm_of_.emplace_back(i, gradients.back().data());
  }
  const Shape shape = {static_cast<int64_t>(parameters.size())};
  ASSIGN_OR_RETURN(squares_, Tensor::Empty(*model_.options().allocator, shape, DType::kFloat32));
  ASSIGN_OR_RETURN(host_squares_, Tensor::Empty(*model_.options().host_allocator, shape, DType::kFloat32));
  ASSIGN_OR_RETURN(norm_call_, OpCall::Make("multi_sum_sq", {}, std::move(gradients), squares_, lane_));
  return absl::OkStatus();
}

absl::Status Updater::StartNorm(absl::Span<const size_t> parameters) {
  has_norm_ = !parameters.empty();
  if (!has_norm_) return absl::OkStatus();
  RETURN_IF_ERROR(PrepareNorm(parameters));
  return norm_call_->Run();
}

absl::StatusOr<double> Updater::GradientNorm() {
  if (!has_norm_) return 0.0;
  RETURN_IF_ERROR(CopyToHost(squares_, lane_.lanes(), host_squares_));
  double sum = 0;
  for (int64_t i = 0; i < host_squares_.Size(); ++i) sum += host_squares_.data<float>()[i];
  return std::sqrt(sum);
}

absl::StatusOr<NamedTensors> Updater::SnapshotStates() const {
  NamedTensors tensors;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Parameter& p = model_.parameters()[i];
    const std::vector<std::string> names = StateNames(p);
    for (size_t s = 0; s < slots_[i].states.size(); ++s) {
      ASSIGN_OR_RETURN(Tensor copy, CopyToHost(slots_[i].states[s], lane_.lanes(), *model_.options().host_allocator));
      tensors.push_back({absl::StrCat(p.name, "/", names[s]), std::move(copy)});
    }
  }
  return tensors;
}

std::vector<std::pair<std::string, int64_t>> Updater::SnapshotUpdates() const {
  std::vector<std::pair<std::string, int64_t>> updates;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].updates > 0) updates.emplace_back(model_.parameters()[i].name, slots_[i].updates);
  }
  return updates;
}

absl::StatusOr<std::vector<Updater::Target>> Updater::PrepareTargets(const NamedTensors& states) {
  std::vector<Target> targets;
  for (const NamedTensor& value : states) {
    const size_t slash = value.name.rfind('/');
    const std::string state = slash == std::string::npos ? "" : value.name.substr(slash + 1);
    ASSIGN_OR_RETURN(const size_t parameter, model_.parameters().Find(value.name.substr(0, slash)));
    const Parameter& p = model_.parameters()[parameter];
    const std::vector<std::string> names = StateNames(p);
    const size_t s = static_cast<size_t>(std::find(names.begin(), names.end(), state) - names.begin());
    const DType type = value.tensor.dtype();
    if (s == names.size() || value.tensor.shape() != p.shape || (type != StateType(p) && type != p.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "optimizer state '", Excerpt(value.name), "', ", Name(type), value.tensor.shape().ToString(),
          ", does not belong to parameter '", p.name, "', whose states are of type ", Name(StateType(p)), ", shape ",
          p.shape.ToString(), " and name ", absl::StrJoin(names, " or "), "; give the states of this optimizer"));
    }
    targets.push_back({parameter, s});
  }
  for (const Target& target : targets) RETURN_IF_ERROR(AllocateStates(target.parameter));
  return targets;
}

absl::Status Updater::CopyStates(const NamedTensors& states, const std::vector<Target>& targets) {
  const auto to = [&](size_t k) -> const Tensor& { return slots_[targets[k].parameter].states[targets[k].state]; };
  std::vector<Tensor> values;  // All first: no state changes where there is no memory to convert another.
  for (size_t k = 0; k < states.size(); ++k) {
    ASSIGN_OR_RETURN(Tensor value, AsType(states[k].tensor, to(k).dtype(), *model_.options().host_allocator));
    values.push_back(std::move(value));
  }
  for (size_t k = 0; k < states.size(); ++k) RETURN_IF_ERROR(CopyToDevice(values[k], lane_.lanes(), to(k)));
  return absl::OkStatus();
}

absl::Status Updater::SetStates(const NamedTensors& states) {
  ASSIGN_OR_RETURN(const std::vector<Target> targets, PrepareTargets(states));
  return CopyStates(states, targets);
}

void Updater::SetUpdates(int64_t updates) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].updates = model_.parameters()[i].grad_req == GradReq::kNull ? 0 : updates;
  }
}

absl::Status Updater::Restore(const NamedTensors& states,
                              const std::vector<std::pair<std::string, int64_t>>& updates) {
  for (const auto& [name, count] : updates) RETURN_IF_ERROR(model_.parameters().Find(name).status());
  ASSIGN_OR_RETURN(const std::vector<Target> targets, PrepareTargets(states));
  for (Slot& slot : slots_) {
    slot.updates = 0;
    for (const Tensor& state : slot.states) {
      RETURN_IF_ERROR(lane_.driver().Zero(state.data(), state.bytes(), lane_.stream()));
    }
  }
  for (const auto& [name, count] : updates) slots_[*model_.parameters().Find(name)].updates = count;
  return CopyStates(states, targets);
}

}  // namespace gluond
