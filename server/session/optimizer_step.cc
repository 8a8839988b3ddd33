#include "server/session/optimizer_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/only_holder.h"
#include "server/hosted/graph_memory.h"

namespace gluond::server {
namespace {

using WeightPart = ArrayUpdate::WeightPart;

// `to` gets the value of `from`, or, where that fails, of `otherwise`; null: the failure.
void Forward(const ValuePtr& from, const ValuePtr& to, const ValuePtr& otherwise, const std::shared_ptr<ReadyQueue>& queue) {
  if (!from->known()) return from->Await([=] { Forward(from, to, otherwise, queue); });
  if (from->failure() == nullptr) return Value::Set(to, from->tensor(), *queue);
  otherwise == nullptr ? Value::Fail(to, from->failure(), *queue) : Forward(otherwise, to, nullptr, queue);
}

absl::StatusOr<UpdatePlan::Prepared> PrepareCall(const ArrayUpdate::ArrayCall& call) {
  UpdatePlan::Prepared prepared;
  if (call.node != nullptr) {
    prepared.op = Prepared(call.node, /*recordable=*/false);
    return prepared;
  }
  ASSIGN_OR_RETURN(prepared.graph, CachedGraph::Create({call.outputs}, call.names));
  return prepared;
}

absl::Status Mismatch(absl::string_view what, const Tensor& tensor, const Shape& want) {
  return Invalid(what, " is ", Name(tensor.dtype()), tensor.shape().ToString(), ", expected the shape ", want.ToString(),
                 "; give an array of that shape");
}

// The tensors of a call that is to be the pattern of runs in place. Leaves `prepared` without any where there can be none.
void KeepTensors(const ArrayUpdate::ArrayCall& call, const std::vector<Array>& inputs, UpdatePlan::Prepared* prepared) {
  const PreparedOp& op = *prepared->op;
  prepared->in.clear(), prepared->out.clear(), prepared->req.clear(), prepared->weights.clear();
  const auto is_here = [](const Array& array) {
    return array.value->known() && array.value->failure() == nullptr && array.value->tensor().device() == Device();
  };
  if (!std::all_of(inputs.begin(), inputs.end(), is_here)) return;
  for (uint32_t o = 0; o < call.results.size(); ++o) {
    for (const OpFacts::InPlace& place : op.facts().in_place) {
      const size_t input = place.input - call.numbers.size();
      if (place.output != o || input >= call.inputs.size() || call.results[o].part != WeightPart::kWeight) continue;
      if (call.inputs[input].part != WeightPart::kWeight || call.inputs[input].weight != call.results[o].weight) continue;
      prepared->weights.push_back(place.input);
      break;
    }
  }
  if (prepared->weights.size() != call.results.size()) return;
  for (const Array& input : inputs) prepared->in.push_back(input.value->tensor().blob());
  for (const size_t weight : prepared->weights) prepared->out.push_back(prepared->in[weight]);
  prepared->req.assign(prepared->out.size(), kWriteInplace);
}

// Whether it is known to be of another shape.
bool IsOther(const ValuePtr& value, const Shape& want) {
  return value != nullptr && value->known() && value->failure() == nullptr && value->tensor().shape() != want;
}

}  // namespace

std::string OptimizerDefinition::NameOf(uint32_t weight) const {
  const Weight& of = weights[weight];
  return of.name.empty() ? absl::StrCat("array ", of.array) : absl::StrCat("array ", of.array, " (", Excerpt(of.name), ")");
}

bool StepInPlace(const OptimizerDefinition& definition, absl::Span<const SteppedWeight> weights, double rescale,
                 Scheduler& scheduler, absl::Status* status) {
  if (definition.plan == nullptr || scheduler.home().device != Device() || !scheduler.home().lane->IsCurrent()) return false;
  UpdatePlan& plan = *definition.plan;
  const auto is_place = [](const SteppedWeight& weight, uint32_t place) { return weight.place == place; };
  if (!std::equal(weights.begin(), weights.end(), plan.places.begin(), plan.places.end(), is_place)) return false;
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    UpdatePlan::Prepared& prepared = plan.calls[c];
    if (!prepared.is_checked) return false;
    const ArrayUpdate::ArrayCall& call = plan.update.calls()[c];
    TBlob* blob = prepared.in.data() + call.numbers.size();
    for (const WeightPart& place : call.inputs) {
      const SteppedWeight& weight = weights[place.weight];
      const ValuePtr* value = &weight.gradient;
      if (place.part == WeightPart::kWeight) value = &weight.array->value;
      if (place.part >= WeightPart::kFirstState) value = weight.states[place.part - WeightPart::kFirstState];
      if (value == nullptr || *value == nullptr || !(*value)->known() || (*value)->failure() != nullptr) return false;
      const Tensor& tensor = (*value)->tensor();
      if (tensor.dtype() != blob->dtype || tensor.shape() != blob->shape || tensor.device() != blob->device) return false;
      if (place.part != WeightPart::kGradient && (value->use_count() != 1 || !IsOnlyHolder(tensor.buffer()))) return false;
      (blob++)->data = tensor.data();
    }
    for (size_t o = 0; o < prepared.out.size(); ++o) prepared.out[o].data = prepared.in[prepared.weights[o]].data;
  }
  if (!plan.numbers.defined()) {
    absl::StatusOr<Tensor> numbers =
        Tensor::Empty(*scheduler.home().allocator, {static_cast<int64_t>(plan.update.numbers().size())}, DType::kFloat64);
    if (!numbers.ok()) return false;
    plan.numbers = *std::move(numbers);
  }
  const auto of = [&](size_t weight) { return NumbersOf(*definition.optimizer, weights[weight].rates, rescale); };
  WriteNumbers(plan.update.numbers(), of, plan.numbers.data<char>());
  for (size_t c = 0; c < plan.calls.size() && status->ok(); ++c) {
    UpdatePlan::Prepared& prepared = plan.calls[c];
    const std::vector<JointUpdate::Variable>& numbers = plan.update.calls()[c].numbers;
    for (size_t i = 0; i < numbers.size(); ++i) prepared.in[i].data = plan.numbers.data<double>() + numbers[i].first;
    *status = scheduler.RunInPlace(*prepared.op, prepared.in, prepared.req, prepared.out);
  }
  return true;
}

void OptimizerStep::Run(Imperative& imperative, const PayForNodes& pay, std::weak_ptr<const void> alive) {
  std::vector<ValuePtr> unknown;
  for (const Weight& each : weights_)
    if (!each.weight->known()) unknown.push_back(each.weight);
  if (unknown.empty()) return Begin(imperative, pay);
  for (Weight& each : weights_) {
    each.is_awaited = true;
    each.new_weight = std::make_shared<Value>();
    for (ValuePtr& state : each.new_states) state = std::make_shared<Value>();
  }
  WhenKnown(unknown, [self = shared_from_this(), &imperative, pay, alive = std::move(alive)] {
    if (const auto held = alive.lock()) self->Begin(imperative, pay);
  });
}

void OptimizerStep::Begin(Imperative& imperative, const PayForNodes& pay) {
  ReadyQueue& queue = imperative.scheduler().queue();
  for (Weight& each : weights_) {
    if (each.weight->failure() != nullptr) return Fail(each.weight->failure(), queue);
    const Optimizer& optimizer = *definition_->optimizer;
    each.lacks_weight32 = optimizer.param().multi_precision && !HasWeight32(optimizer, each.weight->tensor().dtype());
    for (size_t s = 0; s < each.states.size(); ++s) {  // An own state that has failed is made anew.
      ValuePtr& state = each.states[s];
      if (definition_->weights[each.place].states[s] == 0 && state != nullptr && state->failure() != nullptr) state = nullptr;
    }
  }
  const auto refuse = [&](const absl::Status& status) { Fail(imperative.scheduler().Failed(status, command_)->failure(), queue); };
  const absl::StatusOr<std::shared_ptr<UpdatePlan>> plan = Plan(pay);
  if (!plan.ok()) return refuse(plan.status());
  if (const absl::Status status = CheckStates(); !status.ok()) return refuse(status);
  const absl::StatusOr<Tensor> numbers = Numbers(imperative, **plan);
  if (!numbers.ok()) return refuse(numbers.status());
  if (const FailurePtr failure = MakeStates(imperative)) return Fail(failure, queue);
  for (size_t i = 0; i < (*plan)->calls.size(); ++i) Call(imperative, (*plan)->update.calls()[i], (*plan)->calls[i], *numbers);
  for (size_t k = 0; k < weights_.size(); ++k) {
    Weight& each = weights_[k];
    bool is_kept = false;
    for (size_t s = 0; s < each.states.size(); ++s) {  // A state that no call has read stays.
      ValuePtr state = std::move(each.states[s]);
      is_kept = state != nullptr;
      if (is_kept) Set({k, WeightPart::kFirstState + s}, std::move(state), queue);
    }
    if (each.is_awaited && each.lacks_weight32 && each.new_states.back() != nullptr && !is_kept) {
      auto none = std::make_shared<Failure>(Failure{absl::NotFoundError("there is no such state"), command_});
      Set({k, WeightPart::kFirstState + each.states.size() - 1}, std::make_shared<Value>(std::move(none)), queue);
    }
  }
}

absl::StatusOr<std::shared_ptr<UpdatePlan>> OptimizerStep::Plan(const PayForNodes& pay) const {
  const std::shared_ptr<UpdatePlan>& last = definition_->plan;
  const auto is_like = [](const Weight& weight, const Signature& type) {
    return weight.weight->tensor().dtype() == type.dtype && weight.weight->tensor().shape() == type.shape;
  };
  if (last != nullptr && std::equal(weights_.begin(), weights_.end(), last->types.begin(), last->types.end(), is_like) &&
      std::equal(weights_.begin(), weights_.end(), last->places.begin(),
                 [](const Weight& weight, uint32_t place) { return weight.place == place; })) {
    return last;
  }
  const auto plan = std::make_shared<UpdatePlan>();
  std::vector<ArrayUpdate::Weight> weights;
  for (const Weight& each : weights_) {
    const Tensor& tensor = each.weight->tensor();
    plan->places.push_back(each.place);
    plan->types.push_back({tensor.shape(), tensor.dtype()});
    const std::string& name = definition_->weights[each.place].name;
    weights.push_back({name.empty() ? definition_->NameOf(each.place) : name, tensor.shape(), tensor.dtype()});
  }
  ASSIGN_OR_RETURN(plan->update, ArrayUpdate::Make(*definition_->optimizer, weights));
  int64_t nodes = 0;
  for (const ArrayUpdate::ArrayCall& call : plan->update.calls()) {
    nodes += call.node == nullptr ? CountNodes(call.outputs) : 1 + call.node->num_inputs();
  }
  ASSIGN_OR_RETURN(plan->paid, pay(nodes));
  for (const ArrayUpdate::ArrayCall& call : plan->update.calls()) {
    ASSIGN_OR_RETURN(plan->calls.emplace_back(), PrepareCall(call));
  }
  definition_->plan = plan;
  return definition_->plan;
}

absl::Status OptimizerStep::CheckStates() const {
  const Optimizer& optimizer = *definition_->optimizer;
  for (const Weight& each : weights_) {
    const Tensor& tensor = each.weight->tensor();
    if (IsOther(each.gradient, tensor.shape())) {
      return Mismatch(absl::StrCat("the gradient of ", definition_->NameOf(each.place)), each.gradient->tensor(), tensor.shape());
    }
    if (each.lacks_weight32 && definition_->weights[each.place].states.back() != 0) {
      return Invalid(definition_->NameOf(each.place), " is ", Name(tensor.dtype()), ", which has no state '", kWeight32,
                     "'; give one for an array of 16 bits only");
    }
    const bool is_like_weight =
        std::none_of(each.states.begin(), each.states.end(), [&](const ValuePtr& state) { return IsOther(state, tensor.shape()); });
    if (is_like_weight) continue;
    const std::vector<StateSignature> states = StatesOf(optimizer, tensor.shape(), tensor.dtype());
    for (size_t s = 0; s < states.size(); ++s) {
      if (!IsOther(each.states[s], states[s].shape)) continue;
      return Mismatch(absl::StrCat("state '", states[s].name, "' of ", definition_->NameOf(each.place)), each.states[s]->tensor(),
                      states[s].shape);
    }
  }
  return absl::OkStatus();
}

FailurePtr OptimizerStep::MakeStates(Imperative& imperative) {
  const OptimizerStates forms = definition_->optimizer->states();
  std::vector<ValuePtr*> made;
  for (Weight& each : weights_) {
    if (std::none_of(each.states.begin(), each.states.end(), [](const ValuePtr& state) { return state == nullptr; })) continue;
    const Tensor& tensor = each.weight->tensor();
    const std::vector<StateSignature> states = StatesOf(*definition_->optimizer, tensor.shape(), tensor.dtype());
    for (size_t s = 0; s < states.size(); ++s) {
      if (each.states[s] != nullptr) continue;
      const auto form = s < forms.size() ? forms[s].form : OptimizerState::kLikeWeight;
      absl::StatusOr<ValuePtr> zeros = Zeros(imperative, each.weight, form, states[s]);
      each.states[s] = zeros.ok() ? *std::move(zeros) : imperative.scheduler().Failed(zeros.status(), command_);
      made.push_back(&each.states[s]);
      if (!each.states[s]->known() || each.states[s]->failure() == nullptr) continue;
      const FailurePtr failure = each.states[s]->failure();
      for (ValuePtr* state : made) state->reset();
      return failure;
    }
  }
  return nullptr;
}

absl::StatusOr<ValuePtr> OptimizerStep::Zeros(Imperative& imperative, const ValuePtr& weight, OptimizerState::Form form,
                                              const StateSignature& state) const {
  const Tensor& tensor = weight->tensor();
  const auto call = [&](const char* op, const AttrDict& attrs, ValuePtr value) -> absl::StatusOr<ValuePtr> {
    ASSIGN_OR_RETURN(const PreparedOpPtr prepared, PrepareOp(op, attrs, 1));
    return imperative.Invoke(prepared, {{std::move(value), {}, nullptr}}, {.command = command_}).outputs[0].value;
  };
  if (form == OptimizerState::kLikeWeight) {
    ASSIGN_OR_RETURN(ValuePtr zeros, call("zeros_like", {}, weight));
    if (state.dtype == tensor.dtype()) return zeros;
    return call("Cast", {{"dtype", std::string(Name(state.dtype))}}, std::move(zeros));
  }
  ASSIGN_OR_RETURN(Tensor zeros, Tensor::Empty(*imperative.scheduler().Find(Device())->allocator, state.shape, state.dtype));
  std::memset(zeros.data(), 0, zeros.bytes());
  Array array = {std::make_shared<Value>(std::move(zeros)), {}, nullptr};
  return imperative.CopyTo(std::move(array), tensor.device(), {.command = command_}).value;
}

absl::StatusOr<Tensor> OptimizerStep::Numbers(Imperative& imperative, const UpdatePlan& plan) const {
  const std::vector<NumberPlace>& places = plan.update.numbers();
  ASSIGN_OR_RETURN(Tensor numbers, Tensor::Empty(*imperative.scheduler().Find(Device())->allocator,
                                                 {static_cast<int64_t>(places.size())}, DType::kFloat64));
  const auto of = [this](size_t weight) { return NumbersOf(*definition_->optimizer, weights_[weight].rates, rescale_); };
  WriteNumbers(places, of, numbers.data<char>());
  return numbers;
}

void OptimizerStep::Call(Imperative& imperative, const ArrayUpdate::ArrayCall& call, UpdatePlan::Prepared& prepared,
                         const Tensor& numbers) {
  ReadyQueue& queue = imperative.scheduler().queue();
  const Imperative::Options options = {.training = true, .command = command_, .draw = draw_};
  std::vector<Array> inputs;
  inputs.reserve(call.numbers.size() + call.inputs.size());
  const Device device = weights_[call.inputs[0].weight].weight->tensor().device();
  for (const JointUpdate::Variable& variable : call.numbers) {
    Tensor part(numbers.buffer(), variable.first * sizeof(double), variable.shape, variable.type);
    inputs.push_back(imperative.CopyTo({std::make_shared<Value>(std::move(part)), {}, nullptr}, device, options));
  }
  // A graph's run may fail behind what it has made: the states before it are kept.
  std::vector<ValuePtr> kept;
  for (const WeightPart& place : call.results) kept.push_back(place.part >= WeightPart::kFirstState ? Before(place) : nullptr);
  for (const WeightPart& place : call.inputs) inputs.push_back({std::move(Before(place)), {}, nullptr});
  prepared.is_checked = false;
  if (prepared.op != nullptr) KeepTensors(call, inputs, &prepared);
  Imperative::Results results = prepared.graph != nullptr ? imperative.InvokeGraph(*prepared.graph, std::move(inputs), options)
                                                          : imperative.Invoke(prepared.op, std::move(inputs), options);
  const ValuePtr& last = results.outputs.back().value;
  prepared.is_checked = !prepared.in.empty() && last->known() && last->failure() == nullptr;
  for (auto& [input, value] : results.written) Set(call.inputs[input - call.numbers.size()], std::move(value), queue);
  for (size_t i = 0; i < call.results.size(); ++i) {
    const WeightPart& place = call.results[i];
    ValuePtr value = std::move(results.outputs[i].value);
    if (place.part >= WeightPart::kFirstState) {
      auto settled = std::make_shared<Value>();
      Forward(value, settled, kept[i], queue.shared_from_this());
      value = std::move(settled);
    }
    Set(place, std::move(value), queue);
  }
}

void OptimizerStep::Fail(const FailurePtr& failure, ReadyQueue& queue) {
  const auto failed = std::make_shared<Value>(failure);
  for (size_t k = 0; k < weights_.size(); ++k) {
    Weight& each = weights_[k];
    Set({k, WeightPart::kWeight}, failed, queue);
    for (size_t s = 0; s < each.states.size(); ++s) {
      ValuePtr state = std::move(each.states[s]);
      if (state == nullptr && each.new_states[s] != nullptr) state = failed;
      if (state != nullptr) Set({k, WeightPart::kFirstState + s}, std::move(state), queue);
    }
  }
}

ValuePtr& OptimizerStep::Before(const WeightPart& place) {
  Weight& of = weights_[place.weight];
  if (place.part == WeightPart::kWeight) return of.weight;
  return place.part == WeightPart::kGradient ? of.gradient : of.states[place.part - WeightPart::kFirstState];
}

void OptimizerStep::Set(const WeightPart& place, ValuePtr value, ReadyQueue& queue) {
  Weight& of = weights_[place.weight];
  ValuePtr& to = place.part == WeightPart::kWeight ? of.new_weight : of.new_states[place.part - WeightPart::kFirstState];
  if (to == nullptr) {
    to = std::move(value);
  } else {  // Others wait for it.
    Forward(value, to, nullptr, queue.shared_from_this());
  }
}

}  // namespace gluond::server
