#include "engine/train/updater.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/transfer.h"

namespace gluond {
Updater::Updater(Model& model, std::unique_ptr<Optimizer> optimizer)
    : model_(model), lane_(*model.options().lane), optimizer_(std::move(optimizer)), slots_(model.parameters().size()) {}

absl::Status Updater::OwnStates(size_t parameter) {
  Slot& slot = slots_[parameter];
  for (Tensor& state : slot.states) RETURN_IF_ERROR(Own(&state, lane_.lanes(), *model_.options().allocator));
  const std::vector<StateSignature> signatures = StatesOf(model_.parameters()[parameter]);
  while (slot.states.size() < signatures.size()) {
    const StateSignature& signature = signatures[slot.states.size()];
    ASSIGN_OR_RETURN(Tensor state, Tensor::Empty(*model_.options().allocator, signature.shape, signature.dtype));
    RETURN_IF_ERROR(lane_.driver().Zero(state.data(), state.bytes(), lane_.stream()));
    slot.states.push_back(std::move(state));
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphRest> Updater::Build(const ParameterStore& store, absl::Span<const size_t> parameters,
                                         absl::Span<const NodeEntry> gradients, absl::Span<const NodeEntry> first,
                                         JointUpdate* joint) const {
  absl::flat_hash_map<std::string, NodeEntry> weights;
  PostOrderVisit(first, [&weights](const NodePtr& node) {
    if (node->is_variable()) weights[node->name()] = {node, 0};
  });
  GraphRest rest;
  for (size_t k = 0; k < parameters.size(); ++k) {
    const size_t i = parameters[k];
    const Parameter& p = store[i];
    const std::vector<StateSignature> signatures = StatesOf(p);
    std::vector<NodeEntry> states;
    for (size_t s = 0; s < signatures.size(); ++s) {
      const Signature signature = {signatures[s].shape, signatures[s].dtype};
      states.push_back(MakeVariable(absl::StrCat(joint->prefix(), p.name, "/", signatures[s].name)));
      rest.variables.push_back(
          {states.back().node->name(), [signature] { return signature; }, [this, i, s] { return slots_[i].states[s]; }});
    }
    const std::vector<NodeEntry> before = states;
    NodeEntry weight32;
    if (HasWeight32(*optimizer_, p.dtype)) {
      weight32 = states.back();
      states.pop_back();
    }
    const auto weight = weights.find(p.name);
    joint->Begin(i);
    UpdateGraph update(*joint, p, weight == weights.end() ? MakeVariable(p.name) : weight->second, gradients[k], std::move(states),
                       weight32);
    RETURN_IF_ERROR(optimizer_->Build(update));
    rest.outputs.push_back({update.weight, GraphOutput::kMemory, i, [this, i] { return model_.parameters()[i].data; }});
    if (HasWeight32(*optimizer_, p.dtype)) update.states.push_back(update.weight32);
    for (size_t s = 0; s < before.size(); ++s) {
      if (update.states[s].node == before[s].node) continue;  // An operator writes it.
      rest.outputs.push_back({update.states[s], GraphOutput::kMemory, i, [this, i, s] { return slots_[i].states[s]; }});
    }
  }
  RETURN_IF_ERROR(joint->Finish());
  return rest;
}

absl::StatusOr<Updater::Numbers> Updater::MakeNumbers(const JointUpdate& joint, GraphRest* rest) const {
  Numbers numbers;
  ASSIGN_OR_RETURN(numbers.places, NumberPlaces(joint, *optimizer_));
  const Shape shape = {static_cast<int64_t>(numbers.places.size())};
  ASSIGN_OR_RETURN(numbers.host, Tensor::Empty(*model_.options().host_allocator, shape, DType::kFloat64));
  numbers.device = numbers.host;
  if (lane_.device().type != DeviceType::kCpu) {
    ASSIGN_OR_RETURN(numbers.device, Tensor::Empty(*model_.options().allocator, shape, DType::kFloat64));
  }
  for (const JointUpdate::Variable& variable : joint.variables()) {
    const Tensor part(numbers.device.buffer(), variable.first * sizeof(double), variable.shape, variable.type);
    const Signature signature = {variable.shape, variable.type};
    rest->variables.push_back({variable.name, [signature] { return signature; }, [part] { return part; }});
  }
  return numbers;
}

BoundVariable Updater::Gradient(size_t parameter, const std::string& prefix) const {
  const ParameterStore& parameters = model_.parameters();
  const auto signature = [&parameters, parameter]() -> Signature {
    return {parameters[parameter].shape, parameters[parameter].dtype};
  };
  return {absl::StrCat(prefix, parameters[parameter].name, "/gradient"), signature,
          [&parameters, parameter] { return parameters[parameter].grad; }};
}

absl::Status Updater::MakeWritable(absl::Span<const size_t> parameters) {
  for (size_t i : parameters) {
    RETURN_IF_ERROR(model_.memory().Own(i));
    RETURN_IF_ERROR(OwnStates(i));
  }
  return absl::OkStatus();
}

absl::Status Updater::SetNumbers(const Numbers& numbers, double lr, double rescale) const {
  if (numbers.places.empty()) return absl::OkStatus();
  const auto of = [&](size_t parameter) {
    const Parameter& p = model_.parameters()[parameter];
    const double wd = optimizer_->param().wd * p.wd_mult;
    return NumbersOf(*optimizer_, {.t = slots_[parameter].updates + 1, .learning_rate = lr, .lr = lr * p.lr_mult, .wd = wd},
                     rescale);
  };
  WriteNumbers(numbers.places, of, numbers.host.data<char>());
  return Copy(numbers.host.blob(), numbers.device.blob(), lane_.lanes());
}

void Updater::Count(absl::Span<const size_t> parameters) {
  for (size_t i : parameters) ++slots_[i].updates;
}

NamedTensors Updater::HoldStates() const {
  NamedTensors tensors;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Parameter& p = model_.parameters()[i];
    const std::vector<StateSignature> states = StatesOf(p);
    for (size_t s = 0; s < slots_[i].states.size(); ++s) {
      tensors.push_back({absl::StrCat(p.name, "/", states[s].name), slots_[i].states[s]});
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
    const std::vector<StateSignature> known = StatesOf(p);
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& s) { return s.name == state; });
    if (found == known.end()) {
      const auto name = [](std::string* out, const StateSignature& s) { out->append(s.name); };
      return absl::InvalidArgumentError(absl::StrCat(
          "optimizer state '", Excerpt(value.name), "' does not belong to parameter '", p.name, "', ",
          known.empty()
              ? "for which this optimizer keeps no state; leave it out"
              : absl::StrCat("whose states are ", absl::StrJoin(known, ", ", name), "; give the states of this optimizer")));
    }
    const DType type = value.tensor.dtype();
    const bool fits = type == found->dtype || (type == p.dtype && found->dtype == DType::kFloat32);
    if (!fits || value.tensor.shape() != found->shape) {
      return absl::InvalidArgumentError(absl::StrCat("optimizer state '", Excerpt(value.name), "' is ", Name(type),
                                                     value.tensor.shape().ToString(), "; want ", Name(found->dtype),
                                                     found->shape.ToString()));
    }
    targets.push_back({parameter, static_cast<size_t>(found - known.begin())});
  }
  for (const Target& target : targets) RETURN_IF_ERROR(OwnStates(target.parameter));
  return targets;
}

absl::Status Updater::CopyStates(const NamedTensors& states, const std::vector<Target>& targets) {
  const auto to = [&](size_t k) -> const Tensor& { return slots_[targets[k].parameter].states[targets[k].state]; };
  std::vector<Tensor> values;  // All are converted first: without enough memory, no state changes.
  for (size_t k = 0; k < states.size(); ++k) {
    Allocator& host = *model_.options().host_allocator;
    Tensor value = states[k].tensor;
    if (value.dtype() != to(k).dtype()) {
      if (value.device() != host.device()) {
        ASSIGN_OR_RETURN(value, CopyTo(value, lane_.lanes(), host));
      }
      ASSIGN_OR_RETURN(value, AsType(value, to(k).dtype(), host));
    }
    values.push_back(std::move(value));
  }
  for (size_t k = 0; k < states.size(); ++k) RETURN_IF_ERROR(Copy(values[k].blob(), to(k).blob(), lane_.lanes()));
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

absl::Status Updater::Restore(const NamedTensors& states, const std::vector<std::pair<std::string, int64_t>>& updates) {
  for (const auto& [name, count] : updates) RETURN_IF_ERROR(model_.parameters().Find(name).status());
  ASSIGN_OR_RETURN(const std::vector<Target> targets, PrepareTargets(states));
  for (size_t i = 0; i < slots_.size(); ++i)
    if (!slots_[i].states.empty()) RETURN_IF_ERROR(OwnStates(i));
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
