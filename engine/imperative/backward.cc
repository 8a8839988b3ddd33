#include "engine/imperative/backward_walk.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/dtype.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/passes/gradient.h"
#include "engine/runtime/tuning.h"

namespace gluond {
namespace {

constexpr char kNotRecorded[] =
    "cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use "
    "autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, "
    "you need to pass retain_graph=True to backward.";

// Plans of more nodes, the tape's and their own, are not kept.
constexpr int64_t kMostPlanned = 1 << 12;

// The nodes of a client's function: each is a call of its own.
constexpr char kCustomFunctionGradient[] = "_backward_CustomFunction";

RecordedNode& Recorded(const NodePtr& node) { return static_cast<RecordedNode&>(*node); }

// A call of the node that does not keep the node's inputs alive.
PreparedOpPtr PreparedAlone(const NodePtr& node, bool recordable) {
  auto alone = std::make_shared<Node>();
  alone->attrs = std::move(node->attrs);  // Nobody else reads the attributes.
  alone->inputs.resize(node->num_inputs());
  for (size_t i = 0; recordable && i < alone->inputs.size(); ++i) alone->inputs[i] = MakeVariable("input");
  return Prepared(std::move(alone), recordable);
}

absl::Status LostValueError(absl::string_view reader) {
  return absl::InternalError(absl::StrCat("the tape has lost a value that ", reader, " needs; please report it"));
}

// The head gradient, or a failure if it turns out not to be like the head.
absl::StatusOr<ValuePtr> CheckHeadGradient(const std::shared_ptr<Scheduler>& scheduler, const ValuePtr& gradient,
                                           const ValuePtr& head, uint64_t command) {
  // A failure stands for the gradient: no gradient is computed from inputs that the forward pass has refused.
  const auto failure = [gradient, head] { return gradient->failure() != nullptr ? gradient->failure() : head->failure(); };
  const auto check = [gradient, head, failure]() -> absl::Status {
    if (failure() != nullptr) return absl::OkStatus();
    const Tensor &g = gradient->tensor(), &y = head->tensor();
    if (g.shape() == y.shape() && g.dtype() == y.dtype()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a head gradient is ", Name(g.dtype()), g.shape().ToString(), ", expected ",
                                                   Name(y.dtype()), y.shape().ToString(), " like its head"));
  };
  if (gradient->known() && head->known()) {
    RETURN_IF_ERROR(check());
    return head->failure() != nullptr ? head : gradient;
  }
  auto checked = std::make_shared<Value>();
  WhenKnown({gradient, head}, [scheduler, gradient, failure, check, checked, command] {
    const absl::Status status = check();
    if (failure() != nullptr || !status.ok()) {
      Value::Fail(checked, status.ok() ? failure() : scheduler->Failed(status, command)->failure(), scheduler->queue());
    } else {
      Value::Set(checked, gradient->tensor(), scheduler->queue());
    }
  });
  return checked;
}

// Whether the call is over within a turn. The gradient of a graph takes about twice as long as the call has taken.
bool IsShort(const PreparedOp& op, const std::vector<Array>& inputs) {
  if (op.graph == nullptr) return true;
  if (op.graph->graph != nullptr) return false;
  const Value& call = *inputs[op.graph->paused_input].value;
  return call.known() && call.failure() == nullptr && PausedCall::Of(call.tensor()).took < tuning::kReadyTurn / 2;
}

}  // namespace

// The part of the tape that is differentiated, in topological order.
class Imperative::BackwardWalk::History {
 public:
  absl::Status AddAllBefore(const std::vector<NodeEntry>& ys) {
    std::vector<std::pair<const NodePtr*, size_t>> stack;  // Nodes, each with the next input to look at.
    const auto push = [&](const NodePtr& node) {
      if (!Contains(node)) stack.push_back({&node, 0});
    };
    for (const NodeEntry& y : ys) {
      push(y.node);
      while (!stack.empty()) {
        auto& [node, next] = stack.back();
        if (Recorded(*node).is_freed) return absl::FailedPreconditionError(kNotRecorded);
        if (next < (*node)->inputs.size()) {
          push((*node)->inputs[next++].node);
        } else {
          Add(*node);
          stack.pop_back();
        }
      }
    }
    return absl::OkStatus();
  }
  void Add(const NodePtr& node) {
    if (Contains(node)) return;
    Recorded(node).place = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back(node);
  }
  // Requires: the node is of a tape.
  bool Contains(const NodePtr& node) const {
    const uint32_t place = Recorded(node).place;
    return place < nodes_.size() && nodes_[place] == node;
  }
  const std::vector<NodePtr>& nodes() const { return nodes_; }

  // The variables whose gradients are wanted. Those that `named` does not name have marks.
  absl::StatusOr<std::vector<NodeEntry>> Variables(absl::Span<const Array> named, std::vector<MarkPtr>* marks) const {
    std::vector<NodeEntry> found;
    for (size_t i = 0; i < named.size(); ++i) {
      if (!named[i].entry || !Contains(named[i].entry.node)) {
        return absl::InvalidArgumentError(
            absl::StrCat("cannot differentiate with respect to the ", i + 1,
                         "-th variable because it does not require gradient, or the heads do not depend on it"));
      }
      found.push_back(named[i].entry);
    }
    if (!named.empty()) return found;
    for (const NodePtr& node : nodes_) {
      if (Recorded(node).mark == nullptr) continue;
      found.push_back({node, 0});
      marks->push_back(Recorded(node).mark);
    }
    if (!found.empty()) return found;
    return absl::FailedPreconditionError("there are no inputs in computation graph that require gradients");
  }

 private:
  std::vector<NodePtr> nodes_;  // All of them RecordedNode.
};

// Makes a plan of what BuildGradient makes.
class Imperative::BackwardWalk::Planner {
 public:
  Planner(Imperative& imperative, const BackwardOptions& options, const History& history)
      : imperative_(imperative), options_(options), nodes_(history.nodes()) {
    for (uint32_t i = 0; i < nodes_.size(); ++i) places_[nodes_[i].get()] = i;
  }

  absl::StatusOr<std::shared_ptr<BackwardPlan>> Make(const std::vector<NodeEntry>& ys, const std::vector<NodeEntry>& xs,
                                                     const Gradients& heads) {
    ASSIGN_OR_RETURN(const Gradients gradients, Build(ys, xs, heads));
    // The gradient's own nodes, each after those that it reads.
    const NodeOrder order(gradients, [this](const Node* node) { return places_.Has(node); });
    auto plan = std::make_shared<BackwardPlan>();
    const auto find = [&](const std::vector<NodeEntry>& entries) {
      for (const NodeEntry& entry : entries) {
        if (places_.Has(entry.node.get())) plan->recorded.push_back({places_.at(entry.node.get()), entry.index});
      }
    };
    find(gradients);
    for (const NodePtr& node : order.nodes()) find(node->inputs);
    std::sort(plan->recorded.begin(), plan->recorded.end());
    plan->recorded.erase(std::unique(plan->recorded.begin(), plan->recorded.end()), plan->recorded.end());
    auto number = static_cast<uint32_t>(plan->recorded.size());
    std::vector<uint32_t> first_outputs;
    for (const NodePtr& node : order.nodes()) {
      first_outputs.push_back(number);
      number += node->num_outputs();
    }
    plan->uses.resize(number);
    const auto use = [&](const std::vector<NodeEntry>& entries) {
      std::vector<uint32_t> numbers;
      for (const NodeEntry& entry : entries) {
        const uint32_t own = order.numbers.at(entry.node.get());
        numbers.push_back(own != NodeNumbers::kNone ? first_outputs[own] + entry.index
                                                    : plan->NumberOf({places_.at(entry.node.get()), entry.index}));
        ++plan->uses[numbers.back()];
      }
      return numbers;
    };
    for (uint32_t i = 0; i < order.size(); ++i) {
      const Node& node = *order.nodes()[i];
      plan->calls.push_back({nullptr, use(node.inputs), first_outputs[i], std::vector<bool>(node.num_outputs()),
                             training_.Has(&node) ? training_.at(&node) == 1 : options_.training});
    }
    plan->gradients = use(gradients);
    for (size_t i = 0; i < order.size(); ++i) {
      BackwardPlan::Planned& call = plan->calls[i];
      for (uint32_t o = 0; o < call.wanted.size(); ++o) call.wanted[o] = plan->uses[call.first_output + o] > 0;
      call.op = imperative_.GradientCall(order.nodes()[i], options_.create_graph);
    }
    return plan;
  }

 private:
  // A call's gradient has the call's mode: that of a BatchNorm recorded in predict mode is the one of its running means.
  absl::StatusOr<Gradients> Build(const std::vector<NodeEntry>& ys, const std::vector<NodeEntry>& xs, const Gradients& heads) {
    const auto mode_of = [](const Node& node) { return static_cast<const RecordedNode&>(node).training; };
    const auto is_other = [&](const NodePtr& node) { return !node->is_variable() && mode_of(*node) != options_.training; };
    if (std::none_of(nodes_.begin(), nodes_.end(), is_other)) return BuildGradient(ys, xs, heads);
    for (const NodePtr& node : nodes_) training_[node.get()] = options_.training;
    return BuildGradient(ys, xs, heads, [&](const Node& node, const Gradients& made) {
      for (const NodePtr& each : PostOrder(made, [this](const Node* known) { return training_.Has(known); })) {
        training_[each.get()] = mode_of(node);
      }
    });
  }

  Imperative& imperative_;
  const BackwardOptions& options_;
  const std::vector<NodePtr>& nodes_;
  NodeNumbers places_;
  NodeNumbers training_;  // Modes of the gradient's own nodes, 0 or 1; empty: all have the options'.
};

uint32_t BackwardPlan::NumberOf(const Recorded& value) const {
  return static_cast<uint32_t>(std::lower_bound(recorded.begin(), recorded.end(), value) - recorded.begin());
}

absl::StatusOr<BackwardPlanPtr> Imperative::BackwardWalk::Plan(const History& history, const std::vector<NodeEntry>& ys,
                                                               const std::vector<NodeEntry>& xs, const Gradients& heads) {
  // The form of the tape: all that its gradient depends on.
  const std::vector<NodePtr>& nodes = history.nodes();
  std::vector<uint64_t> form = {options_.training, options_.create_graph, ys.size(), xs.size()};
  const auto add = [&form](const std::vector<NodeEntry>& entries) {
    for (const NodeEntry& entry : entries) {
      form.push_back(entry ? uint64_t{Recorded(entry.node).place} << 32 | entry.index : ~uint64_t{0});
    }
  };
  add(ys), add(xs), add(heads);
  for (const NodePtr& node : nodes) {
    form.push_back(node->attrs.call);
    if (node->is_variable()) continue;
    form.push_back(Recorded(node).training);
    form.push_back(node->inputs.size());
    add(node->inputs);
  }
  if (const BackwardPlanPtr* const found = imperative_.plans_.Find(form)) return *found;
  ASSIGN_OR_RETURN(std::shared_ptr<BackwardPlan> plan, Planner(imperative_, options_, history).Make(ys, xs, heads));
  const auto is_own = [](const BackwardPlan::Planned& call) { return call.op->node->op()->name() == kCustomFunctionGradient; };
  // Sixteen edges take about as much as a node.
  const auto n = static_cast<int64_t>(nodes.size() + plan->calls.size() + form.size() / 16);
  if (n > kMostPlanned || std::any_of(plan->calls.begin(), plan->calls.end(), is_own)) return plan;
  *imperative_.planned_ += n;
  plan->counted = {nullptr, [count = imperative_.planned_, n](const void*) { *count -= n; }};
  return imperative_.plans_.Insert(std::move(form), std::move(plan));
}

absl::Status Imperative::BackwardWalk::Begin(absl::Span<const Array> heads, absl::Span<const Array> head_gradients,
                                             absl::Span<const Array> variables) {
  const bool retain = options_.retain_graph || options_.create_graph;
  std::vector<Array> given;    // Arrays whose values the tape need not have.
  std::vector<size_t> places;  // Their places among `heads`.
  History history;
  std::vector<NodeEntry> ys;
  for (size_t i = 0; i < heads.size(); ++i) {
    Array head = heads[i];
    imperative_.tape_.Put(&head);
    if (!head.entry && options_.skip_constants) continue;
    if (!head.entry) return absl::FailedPreconditionError(kNotRecorded);
    ys.push_back(head.entry);
    given.push_back(std::move(head));
    places.push_back(i);
  }
  if (ys.empty() && !heads.empty()) return absl::FailedPreconditionError(kNotRecorded);
  RETURN_IF_ERROR(history.AddAllBefore(ys));
  std::vector<Array> named(variables.begin(), variables.end());
  for (Array& variable : named) imperative_.tape_.Put(&variable);
  ASSIGN_OR_RETURN(std::vector<NodeEntry> xs, history.Variables(named, &marks_));
  given.insert(given.end(), named.begin(), named.end());

  Gradients head_entries(ys.size());
  for (size_t i = 0; i < ys.size(); ++i) {
    Array gradient;
    if (places[i] < head_gradients.size() && head_gradients[places[i]]) {
      gradient = head_gradients[places[i]];
      ASSIGN_OR_RETURN(gradient.value,
                       CheckHeadGradient(imperative_.scheduler_, gradient.value, heads[places[i]].value, options_.command));
    } else if (options_.create_graph) {
      // The ones are not recorded as computed from the head: freeing the gradient's history would free the head's.
      ASSIGN_OR_RETURN(const PreparedOpPtr ones, PrepareOp("ones_like", {}, 1));
      gradient.value = imperative_.Invoke(ones, {{heads[places[i]].value, {}, nullptr}}, ConstantOptions()).outputs[0].value;
    } else {
      continue;
    }
    if (options_.create_graph) imperative_.tape_.Put(&gradient);
    if (!options_.create_graph || !gradient.entry) gradient.entry = {imperative_.tape_.NewNode(), 0};  // A constant.
    head_entries[i] = gradient.entry;
    history.Add(gradient.entry.node);
    given.push_back(std::move(gradient));
  }
  ASSIGN_OR_RETURN(plan_, Plan(history, ys, xs, head_entries));
  if (options_.create_graph) xs_ = std::move(xs);

  left_ = plan_->uses;
  values_.resize(left_.size());
  for (size_t i = 0; i < plan_->recorded.size(); ++i) {
    const auto& [place, output] = plan_->recorded[i];
    const NodePtr& node = history.nodes()[place];
    const RecordedNode& recorded = Recorded(node);
    if (output < recorded.values.size() && recorded.values[output] != nullptr) {
      values_[i] = {recorded.values[output], {node, output}, recorded.mark, recorded.state};
    }
  }
  for (Array& array : given) {
    const BackwardPlan::Recorded value = {array.recorded().place, array.entry.index};
    const uint32_t number = plan_->NumberOf(value);
    if (number < plan_->recorded.size() && plan_->recorded[number] == value) values_[number] = std::move(array);
  }
  if (!retain) {
    for (const NodePtr& node : history.nodes()) Recorded(node).Free();
  }
  return absl::OkStatus();
}

Array Imperative::BackwardWalk::Use(uint32_t number) {
  Array array = --left_[number] > 0 ? values_[number] : std::move(values_[number]);
  if (!options_.create_graph) array.entry = {};
  return array;
}

absl::StatusOr<const Node*> Imperative::BackwardWalk::Run() {
  const auto turn_ends = Lane::Clock::now() + tuning::kBackwardTurn;
  for (; next_ < plan_->calls.size(); ++next_) {
    const BackwardPlan::Planned& call = plan_->calls[next_];
    const std::string& name = call.op->node->op()->name();
    inputs_.clear();
    inputs_.reserve(call.inputs.size());
    for (const uint32_t input : call.inputs) {
      inputs_.push_back(Use(input));
      if (!inputs_.back()) return LostValueError(name);
    }
    if (!options_.stop_at.empty() && name == options_.stop_at) return call.op->node.get();
    Options invoke = InvokeOptions();
    invoke.wanted = &call.wanted;
    invoke.training = call.training;
    // A call that takes long runs later, behind requests that the client makes meanwhile, such as the loss.
    const bool now = IsShort(*call.op, inputs_) && Lane::Clock::now() < turn_ends;
    std::vector<Array*> states;
    for (const uint32_t i : call.op->facts().mutated) states.push_back(TakeState(&inputs_[i]));
    Results results = imperative_.Begin(call.op, std::move(inputs_), invoke, now);
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i] != nullptr) states[i]->value = results.written[i].second;
    for (uint32_t i = 0; i < call.wanted.size(); ++i)
      if (call.wanted[i]) values_[call.first_output + i] = std::move(results.outputs[i]);
  }
  return nullptr;
}

// The array whose state the input is, or null. Moves that array's value into the input.
Array* Imperative::BackwardWalk::TakeState(Array* input) const {
  Array* const array = input->state != 0 && options_.find_state ? options_.find_state(input->state) : nullptr;
  if (array != nullptr) input->value = std::move(array->value);
  return array;
}

absl::Status Imperative::BackwardWalk::Continue(std::vector<Array> outputs) {
  const BackwardPlan::Planned& call = plan_->calls[next_++];
  if (outputs.size() != call.wanted.size()) {
    return absl::InvalidArgumentError(absl::StrCat(outputs.size(), " gradients, expected ", call.wanted.size()));
  }
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    ASSIGN_OR_RETURN(outputs[i].value,
                     CheckHeadGradient(imperative_.scheduler_, outputs[i].value, inputs_[i].value, options_.command));
    if (!outputs[i].entry) imperative_.tape_.Put(&outputs[i]);
    if (call.wanted[i]) values_[call.first_output + i] = std::move(outputs[i]);
  }
  return absl::OkStatus();
}

Imperative::Options Imperative::BackwardWalk::InvokeOptions() const {
  Options options = ConstantOptions();
  options.recording = options_.create_graph;
  return options;
}

Imperative::Options Imperative::BackwardWalk::ConstantOptions() const {
  Options options;
  options.training = options_.training;
  options.command = options_.command;
  options.device = imperative_.scheduler_->home().device;
  return options;
}

// The gradient of a linear function is computed from the head alone. Its tape holds the variable all the same, by a
// node through which no gradient flows: a second differentiation gives zeros.
void Imperative::BackwardWalk::RecordDependence(Array* gradient, const NodeEntry& variable) const {
  NodeEntry from = gradient->entry;
  if (!from) from = {imperative_.tape_.NewNode(), 0};  // A constant.
  const RecordedNodePtr recorded = imperative_.tape_.NewNode();
  recorded->attrs = MakeNode("_identity_with_attr_like_rhs", "gradient", {from, variable}).node->attrs;
  recorded->inputs = {std::move(from), variable};
  recorded->values.resize(1);
  gradient->entry = {recorded, 0};
}

absl::StatusOr<std::vector<Imperative::Gradient>> Imperative::BackwardWalk::Take() {
  std::vector<Gradient> found;
  absl::flat_hash_map<const Mark*, size_t> by_mark;  // Several values of one array may be on the tape.
  for (size_t i = 0; i < plan_->gradients.size(); ++i) {
    const MarkPtr mark = i < marks_.size() ? marks_[i] : nullptr;
    Array gradient = Use(plan_->gradients[i]);
    if (!gradient) return LostValueError("a variable's gradient");
    if (options_.create_graph) RecordDependence(&gradient, xs_[i]);
    gradient.mark = nullptr;
    const auto [it, is_first] = by_mark.try_emplace(mark.get(), found.size());
    if (mark == nullptr || is_first) {
      found.push_back({mark, std::move(gradient)});
      continue;
    }
    Array& sum = found[it->second].array;
    ASSIGN_OR_RETURN(const PreparedOpPtr add, PrepareOp("elemwise_add", {}, 2));
    std::vector<Array> terms;
    terms.push_back(std::move(sum));
    terms.push_back(std::move(gradient));
    sum = imperative_.Invoke(add, std::move(terms), InvokeOptions()).outputs[0];
  }
  return found;
}

absl::StatusOr<std::vector<Imperative::Gradient>> Imperative::Backward(absl::Span<const Array> heads,
                                                                       absl::Span<const Array> head_gradients,
                                                                       absl::Span<const Array> variables,
                                                                       const BackwardOptions& options) {
  BackwardWalk walk(*this, options);
  RETURN_IF_ERROR(walk.Begin(heads, head_gradients, variables));
  RETURN_IF_ERROR(walk.Run().status());
  return walk.Take();
}

PreparedOpPtr Imperative::GradientCall(const NodePtr& node, bool recordable) {
  // A client's function is called once or twice, each by a call of its own.
  if (!node->facts().async || node->op()->name() == kCustomFunctionGradient) return PreparedAlone(node, recordable);
  return *gradient_calls_.Find(node->op()->name(), node->attrs.dict, node->num_inputs(),
                               [&] { return PreparedAlone(node, /*recordable=*/true); });
}

}  // namespace gluond
