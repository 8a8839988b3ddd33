#include "engine/imperative/backward_walk.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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

// The part of the tape that is differentiated.
struct History {
  std::vector<NodePtr> nodes;  // All of them RecordedNode, in topological order.
  absl::flat_hash_set<const Node*> known;

  void Add(const NodePtr& node) {
    if (known.insert(node.get()).second) nodes.push_back(node);
  }
  absl::Status AddAllBefore(const std::vector<NodeEntry>& ys) {
    for (const NodePtr& node : PostOrder(ys)) {
      if (static_cast<const RecordedNode&>(*node).is_freed) return absl::FailedPreconditionError(kNotRecorded);
      Add(node);
    }
    return absl::OkStatus();
  }
};

// The gradient's own nodes, each after those that it reads.
std::vector<NodePtr> NodesBeside(const History& history, const Gradients& gradients) {
  return PostOrder(gradients, [&history](const Node* node) { return history.known.contains(node); });
}

// A call of the node that does not keep the node's inputs alive.
PreparedOpPtr PreparedAlone(const NodePtr& node, bool recordable) {
  auto alone = std::make_shared<Node>();
  alone->attrs = std::move(node->attrs);  // Nobody else reads the attributes.
  alone->inputs.resize(node->num_inputs());
  for (size_t i = 0; recordable && i < alone->inputs.size(); ++i) alone->inputs[i] = MakeVariable("input");
  return Prepared(std::move(alone), recordable);
}

// The variables whose gradients are wanted, and their marks.
struct Variables {
  std::vector<NodeEntry> entries;
  std::vector<MarkPtr> marks;  // Empty where the caller named the variables.
};

absl::StatusOr<Variables> FindVariables(const History& history, absl::Span<const Array> named) {
  Variables found;
  for (size_t i = 0; i < named.size(); ++i) {
    if (!named[i].entry || !history.known.contains(named[i].entry.node.get())) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot differentiate with respect to the ", i + 1,
                       "-th variable because it does not require gradient, or the heads do not depend on it"));
    }
    found.entries.push_back(named[i].entry);
  }
  if (!named.empty()) return found;
  for (const NodePtr& node : history.nodes) {
    const MarkPtr& mark = static_cast<const RecordedNode&>(*node).mark;
    if (mark == nullptr) continue;
    found.entries.push_back({node, 0});
    found.marks.push_back(mark);
  }
  if (!found.entries.empty()) return found;
  return absl::FailedPreconditionError("there are no inputs in computation graph that require gradients");
}

absl::Status LostOutputError(const NodeEntry& entry) {
  return absl::InternalError(absl::StrCat("the tape has lost output ", entry.index, " of '", entry.node->name(),
                                          "', which the gradient needs; please report it"));
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

}  // namespace

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
  ASSIGN_OR_RETURN(Variables xs, FindVariables(history, named));
  marks_ = std::move(xs.marks);
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
  ASSIGN_OR_RETURN(gradients_, BuildGradients(history.nodes, ys, xs.entries, head_entries));
  if (options_.create_graph) xs_ = std::move(xs.entries);

  order_ = NodesBeside(history, gradients_);
  values_.AddUses(gradients_);
  for (const NodePtr& node : order_) values_.AddUses(node->inputs);
  for (const NodePtr& node : history.nodes) {
    auto& recorded = static_cast<RecordedNode&>(*node);
    for (uint32_t i = 0; i < recorded.values.size(); ++i) {
      if (recorded.values[i] == nullptr) continue;
      values_.Put({node, i}, {recorded.values[i], {node, i}, recorded.mark, recorded.state});
    }
  }
  for (Array& array : given) {
    const NodeEntry entry = array.entry;
    values_.Put(entry, std::move(array));
  }
  if (!retain) {
    for (const NodePtr& node : history.nodes) static_cast<RecordedNode&>(*node).Free();
  }
  return absl::OkStatus();
}

// A call's gradient has the call's mode: that of a BatchNorm recorded in predict mode is the one of its running means.
absl::StatusOr<Gradients> Imperative::BackwardWalk::BuildGradients(const std::vector<NodePtr>& history,
                                                                   const std::vector<NodeEntry>& ys,
                                                                   const std::vector<NodeEntry>& xs, const Gradients& heads) {
  const auto mode_of = [](const Node& node) { return static_cast<const RecordedNode&>(node).training; };
  const auto is_other = [&](const NodePtr& node) { return !node->is_variable() && mode_of(*node) != options_.training; };
  if (std::none_of(history.begin(), history.end(), is_other)) return BuildGradient(ys, xs, heads);
  for (const NodePtr& node : history) training_[node.get()] = options_.training;
  return BuildGradient(ys, xs, heads, [&](const Node& node, const Gradients& made) {
    for (const NodePtr& each : PostOrder(made, [this](const Node* known) { return training_.contains(known); })) {
      training_[each.get()] = mode_of(node);
    }
  });
}

absl::StatusOr<const Node*> Imperative::BackwardWalk::Run() {
  const auto turn_ends = Lane::Clock::now() + tuning::kBackwardTurn;
  for (; next_ < order_.size(); ++next_) {
    const NodePtr& node = order_[next_];
    inputs_.clear();
    inputs_.reserve(node->inputs.size());
    for (const NodeEntry& input : node->inputs) {
      inputs_.push_back(values_.Use(input));
      if (!inputs_.back()) return LostOutputError(input);
      if (!options_.create_graph) inputs_.back().entry = {};
    }
    if (!options_.stop_at.empty() && node->op()->name() == options_.stop_at) return node.get();
    const uint32_t num_outputs = node->num_outputs();
    std::vector<bool> wanted(num_outputs);
    for (uint32_t i = 0; i < num_outputs; ++i) wanted[i] = values_.IsUsed(node.get(), i);
    Options invoke = InvokeOptions();
    invoke.wanted = &wanted;
    if (const auto mode = training_.find(node.get()); mode != training_.end()) invoke.training = mode->second;
    const PreparedOpPtr op = imperative_.GradientCall(node, options_.create_graph);
    // A whole graph takes long, so it runs later, behind requests that the client makes meanwhile, such as the loss.
    const bool now = op->graph == nullptr && Lane::Clock::now() < turn_ends;
    std::vector<Array*> states;
    for (const uint32_t i : op->facts().mutated) states.push_back(TakeState(&inputs_[i]));
    Results results = imperative_.Begin(op, std::move(inputs_), invoke, now);
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i] != nullptr) states[i]->value = results.written[i].second;
    for (uint32_t i = 0; i < num_outputs; ++i)
      if (wanted[i]) values_.Put({node, i}, std::move(results.outputs[i]));
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
  const NodePtr& node = order_[next_++];
  if (outputs.size() != node->num_outputs()) {
    return absl::InvalidArgumentError(absl::StrCat(outputs.size(), " gradients, expected ", node->num_outputs()));
  }
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    ASSIGN_OR_RETURN(outputs[i].value,
                     CheckHeadGradient(imperative_.scheduler_, outputs[i].value, inputs_[i].value, options_.command));
    if (!outputs[i].entry) imperative_.tape_.Put(&outputs[i]);
    values_.Put({node, i}, std::move(outputs[i]));
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
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const MarkPtr mark = i < marks_.size() ? marks_[i] : nullptr;
    Array gradient = values_.Use(gradients_[i]);
    if (!gradient) return LostOutputError(gradients_[i]);
    if (!options_.create_graph) gradient.entry = {};
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
  if (!node->facts().async || node->op()->name() == "_backward_CustomFunction") return PreparedAlone(node, recordable);
  PreparedOps& calls = recordable ? recordable_gradient_calls_ : gradient_calls_;
  return *calls.Find(node->op()->name(), node->attrs.dict, node->num_inputs(), [&] { return PreparedAlone(node, recordable); });
}

}  // namespace gluond
