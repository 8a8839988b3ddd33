#include "engine/train/updater.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/op_facts.h"
#include "engine/core/param.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/random_stream.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

constexpr char kWeight32[] = "weight32";
// Updates draw other random numbers than the model's own nodes.
constexpr uint64_t kUpdateSeed = NameHash("update");

bool HasSixteenBits(DType type) { return type == DType::kFloat16 || type == DType::kBfloat16; }

}  // namespace

Updater::Updater(Model& model, std::unique_ptr<Optimizer> optimizer)
    : model_(model), lane_(*model.options().lane), optimizer_(std::move(optimizer)), slots_(model.parameters().size()) {}

bool Updater::HasWeight32(const Parameter& p) const { return optimizer_->param().multi_precision && HasSixteenBits(p.dtype); }

std::vector<Updater::StateSignature> Updater::StatesOf(const Parameter& p) const {
  const DType type = HasSixteenBits(p.dtype) ? DType::kFloat32 : p.dtype;
  std::vector<StateSignature> states;
  for (const OptimizerState& state : optimizer_->states()) {
    switch (state.form) {
      case OptimizerState::kLikeWeight: states.push_back({state.name, p.shape, type}); break;
      case OptimizerState::kRows: states.push_back({state.name, {p.shape.ndim() > 0 ? p.shape[0] : 1, 1}, type}); break;
      case OptimizerState::kNumber: states.push_back({state.name, {1}, DType::kFloat64}); break;
    }
  }
  if (HasWeight32(p)) states.push_back({kWeight32, p.shape, type});
  return states;
}

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

absl::Status Updater::Prepare(absl::Span<const size_t> parameters) {
  for (size_t i : parameters) {  // A run of grad_req add leaves its sums in other memory.
    const Tensor& grad = model_.parameters()[i].grad;
    if (slots_[i].grad.buffer() != grad.buffer()) slots_[i].grad = grad;
  }
  const auto is_there = [this](size_t i) { return slots_[i].in_graph; };
  if (executor_ != nullptr && std::all_of(parameters.begin(), parameters.end(), is_there)) return absl::OkStatus();
  std::vector<size_t> members;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool asked = std::find(parameters.begin(), parameters.end(), i) != parameters.end();
    if (asked || (slots_[i].in_graph && model_.parameters()[i].grad.defined())) members.push_back(i);
  }
  return Compile(members);
}

absl::Status Updater::Compile(absl::Span<const size_t> members) {
  executor_.reset();
  inputs_.clear();
  outputs_.clear();
  for (Slot& slot : slots_) slot.in_graph = false;
  Draft draft;
  std::vector<NodeEntry> gradients;
  outputs_.push_back(&squares_);
  for (size_t i : members) {
    slots_[i].square = gradients.size();
    ASSIGN_OR_RETURN(gradients.emplace_back(), AddUpdate(i, &draft));
  }
  // The norm comes first: it may ask for more memory than is there, and then nothing is written.
  draft.graph.outputs.insert(draft.graph.outputs.begin(), MakeNode("multi_sum_sq", "gradient_norm", std::move(gradients)));
  // The nodes are the updater's own, and their numbers are set through pointers: passes must find nothing to copy.
  uint32_t streams = 0;
  PostOrderVisit(draft.graph.outputs, [&streams](const NodePtr& node) {
    if (node->facts().random) node->attrs.random_stream = streams++;
  });
  const Shape shape = {static_cast<int64_t>(members.size())};
  ASSIGN_OR_RETURN(squares_, Tensor::Empty(*model_.options().allocator, shape, DType::kFloat32));
  ASSIGN_OR_RETURN(host_squares_, Tensor::Empty(*model_.options().host_allocator, shape, DType::kFloat32));
  ASSIGN_OR_RETURN(executor_, Executor::Compile(draft.graph, draft.known, {.is_train = true, .only_wanted = true}, lane_,
                                                *model_.options().allocator));
  for (const Executor::Variable& variable : executor_->inputs()) inputs_.push_back(draft.memory.at(variable.name));
  for (size_t i : members) slots_[i].in_graph = true;
  return absl::OkStatus();
}

NodeEntry Updater::Draft::Variable(const std::string& name, const Tensor& tensor) {
  known[name] = {tensor.shape(), tensor.dtype()};
  memory[name] = &tensor;
  return MakeVariable(name);
}

absl::StatusOr<NodeEntry> Updater::AddUpdate(size_t parameter, Draft* draft) {
  RETURN_IF_ERROR(OwnStates(parameter));
  Slot& slot = slots_[parameter];
  const LiveParameter& p = model_.parameters()[parameter];
  slot.grad = p.grad;
  const std::vector<StateSignature> signatures = StatesOf(p);
  std::vector<NodeEntry> states;
  for (size_t k = 0; k < signatures.size(); ++k) {
    states.push_back(draft->Variable(absl::StrCat(p.name, "/", signatures[k].name), slot.states[k]));
  }
  const std::vector<NodeEntry> before = states;
  NodeEntry weight32;
  if (HasWeight32(p)) {
    weight32 = states.back();
    states.pop_back();
  }
  const NodeEntry grad = draft->Variable(absl::StrCat(p.name, "/grad"), slot.grad);
  UpdateGraph update(p, draft->Variable(absl::StrCat(p.name, "/weight"), p.data), grad, std::move(states), weight32);
  RETURN_IF_ERROR(optimizer_->Build(update));
  slot.numbers = std::move(update.places);
  slot.first_output = outputs_.size();
  const auto add = [&](const NodeEntry& value, const Tensor& to) {
    draft->graph.outputs.push_back(value);
    outputs_.push_back(&to);
  };
  add(update.weight, p.data);
  if (HasWeight32(p)) update.states.push_back(update.weight32);
  for (size_t k = 0; k < before.size(); ++k) {
    if (update.states[k].node != before[k].node) add(update.states[k], slot.states[k]);
  }
  slot.num_outputs = outputs_.size() - slot.first_output;
  return grad;
}

absl::Status Updater::Run(absl::Span<const size_t> updates, bool norm) {
  for (const Tensor* const tensor : inputs_) run_.inputs.push_back(*tensor);
  for (const Tensor* const tensor : outputs_) run_.outputs.push_back(*tensor);
  run_.output_reqs.assign(outputs_.size(), kNullOp);
  for (size_t i : updates) {
    std::fill_n(run_.output_reqs.begin() + slots_[i].first_output, slots_[i].num_outputs, kWriteTo);
  }
  if (norm) run_.output_reqs.front() = kWriteTo;
  run_.seed = model_.runs().random().seed ^ kUpdateSeed;
  run_.random_run = model_.runs().random().runs;
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
    StepNumbers numbers = optimizer_->numbers(
        {.t = slots_[i].updates + 1, .learning_rate = lr, .lr = lr * p.lr_mult, .wd = optimizer_->param().wd * p.wd_mult});
    numbers.push_back({"rescale_grad", rescale});
    for (const NumberPlace& place : slots_[i].numbers) {
      for (const StepNumber& number : numbers) {
        if (place.number == number.name) {
          RETURN_IF_ERROR(SetParam(&place.node->attrs, place.attribute, number.value));
        }
      }
    }
  }
  RETURN_IF_ERROR(Prepare(parameters));
  RETURN_IF_ERROR(lane_.ReserveScratch());
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
  for (size_t i : parameters) sum += host_squares_.data<float>()[slots_[i].square];
  return std::sqrt(sum);
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
