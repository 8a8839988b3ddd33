#include "engine/train/updater.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/graph.h"
#include "engine/core/param.h"
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

absl::Status Updater::OwnStates(size_t parameter) {
  Slot& slot = slots_[parameter];
  for (Tensor& state : slot.states) RETURN_IF_ERROR(Own(&state, lane_.lanes(), *model_.options().allocator));
  const Parameter& p = model_.parameters()[parameter];
  while (slot.states.size() < state_names_.size() + HasWeight32(p)) {
    ASSIGN_OR_RETURN(Tensor state, Tensor::Empty(*model_.options().allocator, p.shape, StateType(p)));
    RETURN_IF_ERROR(lane_.driver().Zero(state.data(), state.bytes(), lane_.stream()));
    slot.states.push_back(std::move(state));
  }
  return absl::OkStatus();
}

absl::Status Updater::Prepare(absl::Span<const size_t> parameters) {
  const auto is_there = [this](size_t i) {
    return slots_[i].update != nullptr && slots_[i].grad.buffer() == model_.parameters()[i].grad.buffer();
  };
  if (executor_ != nullptr && std::all_of(parameters.begin(), parameters.end(), is_there)) return absl::OkStatus();
  std::vector<size_t> members;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool asked = std::find(parameters.begin(), parameters.end(), i) != parameters.end();
    if (asked || (slots_[i].update != nullptr && model_.parameters()[i].grad.defined())) members.push_back(i);
  }
  return Compile(members);
}

absl::Status Updater::Compile(absl::Span<const size_t> members) {
  executor_.reset();
  inputs_.clear();
  outputs_.clear();
  for (Slot& slot : slots_) slot.update = nullptr;
  Graph graph;
  Signatures known;
  absl::flat_hash_map<std::string, const Tensor*> memory;
  std::vector<NodeEntry> gradients;
  for (size_t i : members) {
    RETURN_IF_ERROR(OwnStates(i));
    Slot& slot = slots_[i];
    const LiveParameter& p = model_.parameters()[i];
    slot.grad = p.grad;
    std::vector<std::string> names = StateNames(p);
    names.insert(names.begin(), {"weight", "grad"});
    std::vector<const Tensor*> tensors = {&p.data, &slot.grad};
    for (const Tensor& state : slot.states) tensors.push_back(&state);
    std::vector<NodeEntry> in;
    for (size_t k = 0; k < names.size(); ++k) {
      const std::string name = absl::StrCat(p.name, "/", names[k]);
      in.push_back(MakeVariable(name));
      known[name] = {tensors[k]->shape(), tensors[k]->dtype()};
      memory[name] = tensors[k];
    }
    gradients.push_back(in[1]);
    const std::string op = absl::StrCat(HasWeight32(p) ? "mp_" : "", op_);
    ASSIGN_OR_RETURN(slot.update, TryMakeNode(op, p.name, std::move(in), optimizer_->attrs()));
    slot.place = graph.outputs.size();
    graph.outputs.push_back({slot.update, 0});
    outputs_.push_back(&p.data);
  }
  graph.outputs.push_back(MakeNode("multi_sum_sq", "gradient_norm", std::move(gradients)));
  const Shape shape = {static_cast<int64_t>(members.size())};
  ASSIGN_OR_RETURN(squares_, Tensor::Empty(*model_.options().allocator, shape, DType::kFloat32));
  ASSIGN_OR_RETURN(host_squares_, Tensor::Empty(*model_.options().host_allocator, shape, DType::kFloat32));
  outputs_.push_back(&squares_);
  ASSIGN_OR_RETURN(executor_, Executor::Compile(graph, known, {.is_train = true}, lane_, *model_.options().allocator));
  for (const Executor::Variable& variable : executor_->inputs()) inputs_.push_back(memory.at(variable.name));
  return absl::OkStatus();
}

absl::Status Updater::Run(absl::Span<const size_t> updates, bool norm) {
  for (const Tensor* const tensor : inputs_) run_.inputs.push_back(*tensor);
  for (const Tensor* const tensor : outputs_) run_.outputs.push_back(*tensor);
  run_.output_reqs.assign(outputs_.size(), kNullOp);
  for (size_t i : updates) run_.output_reqs[slots_[i].place] = kWriteTo;
  if (norm) run_.output_reqs.back() = kWriteTo;
  absl::Status result;  // Set before the call returns: no operator of the graph waits.
  executor_->StartHere(std::move(run_), [&result](absl::Status status) { result = std::move(status); });
  run_ = executor_->TakeRun();
  run_.inputs.clear();
  run_.outputs.clear();
  return result;
}

absl::Status Updater::MakeWritable(absl::Span<const size_t> parameters) {
  if (parameters.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Prepare(parameters));
  for (size_t i : parameters) {
    RETURN_IF_ERROR(model_.memory().Own(i));
    RETURN_IF_ERROR(OwnStates(i));
  }
  return absl::OkStatus();
}

absl::Status Updater::Update(absl::Span<const size_t> parameters, double lr, double rescale, bool with_norm) {
  if (parameters.empty()) return absl::OkStatus();
  for (size_t i : parameters) {
    const Parameter& p = model_.parameters()[i];
    NodeAttrs* const attrs = &slots_[i].update->attrs;
    const int64_t t = slots_[i].updates + 1;
    for (const StepNumber& number : optimizer_->numbers(t, lr * p.lr_mult, optimizer_->param().wd * p.wd_mult)) {
      RETURN_IF_ERROR(SetParam(attrs, number.name, number.value));
    }
    RETURN_IF_ERROR(SetParam(attrs, "rescale_grad", rescale));
  }
  RETURN_IF_ERROR(Run(parameters, with_norm));
  for (size_t i : parameters) ++slots_[i].updates;
  // A step that is reported as a success has really ended.
  return with_norm ? absl::OkStatus() : lane_.driver().Synchronize(lane_.stream());
}

absl::Status Updater::StartNorm(absl::Span<const size_t> parameters) {
  if (parameters.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Prepare(parameters));
  return Run({}, /*norm=*/true);
}

absl::StatusOr<double> Updater::GradientNorm(absl::Span<const size_t> parameters) {
  if (parameters.empty()) return 0.0;
  RETURN_IF_ERROR(CopyToHost(squares_, lane_.lanes(), host_squares_));
  double sum = 0;
  for (size_t i : parameters) sum += host_squares_.data<float>()[slots_[i].place];
  return std::sqrt(sum);
}

NamedTensors Updater::HoldStates() const {
  NamedTensors tensors;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Parameter& p = model_.parameters()[i];
    const std::vector<std::string> names = StateNames(p);
    for (size_t s = 0; s < slots_[i].states.size(); ++s) {
      tensors.push_back({absl::StrCat(p.name, "/", names[s]), slots_[i].states[s]});
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
          ", does not belong to parameter '", p.name, "', ",
          names.empty() ? "for which this optimizer keeps no state; leave it out"
                        : absl::StrCat("whose states are of type ", Name(StateType(p)), ", shape ", p.shape.ToString(),
                                       " and name ", absl::StrJoin(names, " or "),
                                       "; give the states of this optimizer")));
    }
    targets.push_back({parameter, s});
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
        ASSIGN_OR_RETURN(value, CopyToHost(value, lane_.lanes(), host));
      }
      ASSIGN_OR_RETURN(value, AsType(value, to(k).dtype(), host));
    }
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
  for (size_t i = 0; i < slots_.size(); ++i) if (!slots_[i].states.empty()) RETURN_IF_ERROR(OwnStates(i));
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
