// Imperative::Backward: the gradient of what the tape holds is a graph of the engine's operators; its nodes are invoked one
// by one, each with the values that the tape kept for it.

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/imperative.h"
#include "engine/passes/gradient.h"

namespace gluond {
namespace {

using Place = std::pair<const Node*, uint32_t>;  // An entry, as a key.

constexpr char kNotRecorded[] =
    "cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use "
    "autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, you "
    "need to pass retain_graph=True to backward.";

// A constant of the tape, for a value that has no place there.
NodeEntry Constant(const ValuePtr& value) {
  auto node = std::make_shared<RecordedNode>();
  node->attrs.name = "constant";
  node->values = {value};
  return {std::move(node), 0};
}

// What there is to differentiate.
struct Tape {
  std::vector<NodePtr> nodes;  // All of them RecordedNode, in topological order.
  absl::flat_hash_set<const Node*> known;

  void Add(const NodePtr& node) {
    if (known.insert(node.get()).second) nodes.push_back(node);
  }
  absl::Status AddAllBefore(const std::vector<NodeEntry>& ys) {
    for (const NodePtr& node : graph_internal::PostOrder(ys)) {
      if (static_cast<const RecordedNode&>(*node).is_freed) return absl::FailedPreconditionError(kNotRecorded);
      Add(node);
    }
    return absl::OkStatus();
  }
};

// The values of entries while the gradient is computed, each let go of after its last use.
class Values {
 public:
  explicit Values(const Gradients& wanted) {
    for (const NodeEntry& entry : wanted) ++uses_[{entry.node.get(), entry.index}];
  }
  void AddUses(const Node& node) {
    for (const NodeEntry& input : node.inputs) ++uses_[{input.node.get(), input.index}];
  }
  bool IsUsed(const Node* node, uint32_t index) const { return uses_.contains({node, index}); }
  void Put(const Node* node, uint32_t index, Array array) {
    if (IsUsed(node, index)) arrays_[{node, index}] = std::move(array);
  }
  // An empty array where there is no value.
  Array Use(const NodeEntry& entry) {
    const Place place(entry.node.get(), entry.index);
    const auto it = arrays_.find(place);
    if (it == arrays_.end()) return {};
    if (--uses_[place] > 0) return it->second;
    Array last = std::move(it->second);
    arrays_.erase(it);
    return last;
  }

 private:
  absl::flat_hash_map<Place, int> uses_;
  absl::flat_hash_map<Place, Array> arrays_;
};

// The variables whose gradients are wanted, and whose they are.
struct Variables {
  std::vector<NodeEntry> entries;
  std::vector<MarkPtr> marks;  // Empty where the caller named the variables.
};

absl::StatusOr<Variables> FindVariables(const Tape& tape, absl::Span<const Array> named) {
  Variables found;
  for (size_t i = 0; i < named.size(); ++i) {
    if (!named[i].entry || !tape.known.contains(named[i].entry.node.get())) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot differentiate with respect to the ", i + 1,
                       "-th variable because it does not require gradient, or the heads do not depend on it"));
    }
    found.entries.push_back(named[i].entry);
  }
  if (!named.empty()) return found;
  for (const NodePtr& node : tape.nodes) {
    const MarkPtr& mark = static_cast<const RecordedNode&>(*node).mark;
    if (mark == nullptr) continue;
    found.entries.push_back({node, 0});
    found.marks.push_back(mark);
  }
  if (!found.entries.empty()) return found;
  return absl::FailedPreconditionError("there are no inputs in computation graph that require gradients");
}

}  // namespace

absl::StatusOr<std::vector<Imperative::Gradient>> Imperative::Backward(absl::Span<const Array> heads,
                                                                       absl::Span<const Array> head_gradients,
                                                                       absl::Span<const Array> variables,
                                                                       const BackwardOptions& options) {
  const bool retain = options.retain_graph || options.create_graph;
  Tape tape;
  std::vector<NodeEntry> ys;
  for (Array head : heads) {
    PutOnTape(&head);
    if (!head.entry) return absl::FailedPreconditionError(kNotRecorded);
    std::vector<ValuePtr>& values = head.recorded().values;
    values.resize(std::max<size_t>(values.size(), head.entry.index + 1));
    values[head.entry.index] = head.value;
    ys.push_back(head.entry);
  }
  RETURN_IF_ERROR(tape.AddAllBefore(ys));
  std::vector<Array> named(variables.begin(), variables.end());
  for (Array& variable : named) PutOnTape(&variable);
  ASSIGN_OR_RETURN(const Variables xs, FindVariables(tape, named));

  Gradients head_entries(ys.size());
  for (size_t i = 0; i < head_gradients.size() && i < ys.size(); ++i) {
    Array gradient = head_gradients[i];
    if (!gradient) continue;
    if (options.create_graph) PutOnTape(&gradient);
    const bool on_tape = options.create_graph && gradient.entry;
    head_entries[i] = on_tape ? gradient.entry : Constant(gradient.value);
    if (on_tape) {
      std::vector<ValuePtr>& values = gradient.recorded().values;
      values.resize(std::max<size_t>(values.size(), gradient.entry.index + 1));
      values[gradient.entry.index] = gradient.value;
    }
    tape.Add(head_entries[i].node);
  }
  ASSIGN_OR_RETURN(const Gradients gradients, BuildGradient(ys, xs.entries, head_entries));

  const std::vector<NodePtr> order = graph_internal::PostOrder(gradients);
  Values values(gradients);
  for (const NodePtr& node : order) if (!tape.known.contains(node.get())) values.AddUses(*node);
  for (const NodePtr& node : tape.nodes) {
    auto& recorded = static_cast<RecordedNode&>(*node);
    for (uint32_t i = 0; i < recorded.values.size(); ++i) {
      if (recorded.values[i] != nullptr) values.Put(node.get(), i, {recorded.values[i], {node, i}, recorded.mark});
    }
  }
  if (!retain) {
    for (const NodePtr& node : tape.nodes) static_cast<RecordedNode&>(*node).Free();
  }

  Options invoke;
  invoke.recording = options.create_graph;
  invoke.training = options.training;
  invoke.command = options.command;
  invoke.device = home().device;
  std::vector<bool> wanted;
  invoke.wanted = &wanted;
  for (const NodePtr& node : order) {
    if (tape.known.contains(node.get())) continue;
    std::vector<Array> inputs;
    for (const NodeEntry& input : node->inputs) {
      inputs.push_back(values.Use(input));
      if (!inputs.back()) {
        return absl::InternalError(absl::StrCat("the tape has lost output ", input.index, " of '", input.node->name(),
                                                "', which the gradient needs; please report it"));
      }
      if (!options.create_graph) inputs.back().entry = {};
    }
    const CallPtr call = CallOf(node, options.create_graph);
    wanted.assign(call->num_outputs, false);
    for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = values.IsUsed(node.get(), i);
    Results results = Invoke(call, std::move(inputs), invoke);
    for (uint32_t i = 0; i < results.outputs.size(); ++i) values.Put(node.get(), i, std::move(results.outputs[i]));
  }

  std::vector<Gradient> found;
  absl::flat_hash_map<const Mark*, size_t> by_mark;  // An array may be on the tape with several of its values.
  for (size_t i = 0; i < gradients.size(); ++i) {
    const MarkPtr mark = i < xs.marks.size() ? xs.marks[i] : nullptr;
    Array gradient = values.Use(gradients[i]);
    gradient.mark = nullptr;
    const auto [it, is_first] = by_mark.try_emplace(mark.get(), found.size());
    if (mark == nullptr || is_first) {
      found.push_back({mark, std::move(gradient)});
      continue;
    }
    Array& sum = found[it->second].array;
    ASSIGN_OR_RETURN(const CallPtr add, MakeCall("elemwise_add", {}, 2));
    wanted.assign(1, true);
    sum = Invoke(add, {std::move(sum), std::move(gradient)}, invoke).outputs[0];
  }
  return found;
}

}  // namespace gluond
