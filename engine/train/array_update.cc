#include "engine/train/array_update.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/train/update_graph.h"

namespace gluond {
namespace {

using WeightPart = ArrayUpdate::WeightPart;
using ArrayCall = ArrayUpdate::ArrayCall;

// The variables of an update, and what its nodes have made of them.
class Nodes {
 public:
  NodeEntry Variable(size_t weight, size_t part) {
    NodeEntry variable = MakeVariable(absl::StrCat(part, "/", weight));
    places_[variable.node.get()] = {weight, part};
    return variable;
  }
  void AddResult(WeightPart place, NodeEntry entry) { results_.emplace_back(place, std::move(entry)); }

  std::vector<ArrayCall> Calls(const JointUpdate& joint) {
    for (const JointUpdate::Variable& variable : joint.variables()) numbers_[variable.name] = &variable;
    std::vector<ArrayCall> calls;
    if (std::all_of(results_.begin(), results_.end(), [this](const auto& result) { return IsCall(*result.second.node); })) {
      for (const auto& [place, entry] : results_) CallOf(entry.node, &calls).results[entry.index] = place;
      return calls;
    }
    ArrayCall& call = calls.emplace_back();
    for (const auto& [place, entry] : results_) {
      call.outputs.push_back(entry);
      call.results.push_back(place);
    }
    std::vector<NodePtr> variables;
    for (const NodePtr& node : PostOrder(call.outputs))
      if (node->is_variable()) variables.push_back(node);
    AddInputs(variables, &call);
    return calls;
  }

 private:
  // Whether a node reads a tensor of numbers, and then tensors of weights alone, as an operator on many weights does.
  bool IsCall(const Node& node) const {
    return !node.is_variable() && node.num_inputs() > 0 && numbers_.contains(node.inputs[0].node->name()) &&
           std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                       [this](const NodeEntry& input) { return places_.contains(input.node.get()); });
  }
  // The numbers come first, as an operator has them.
  void AddInputs(const std::vector<NodePtr>& variables, ArrayCall* call) const {
    for (const NodePtr& variable : variables) {
      if (places_.contains(variable.get())) continue;
      call->numbers.push_back(*numbers_.at(variable->name()));
      call->names.push_back(variable->name());
    }
    for (const NodePtr& variable : variables) {
      const auto place = places_.find(variable.get());
      if (place == places_.end()) continue;
      call->inputs.push_back(place->second);
      call->names.push_back(variable->name());
    }
  }
  ArrayCall& CallOf(const NodePtr& node, std::vector<ArrayCall>* calls) const {
    for (ArrayCall& call : *calls)
      if (call.node == node) return call;
    ArrayCall& call = calls->emplace_back();
    call.node = node;
    std::vector<NodePtr> variables;
    for (const NodeEntry& input : node->inputs) variables.push_back(input.node);
    AddInputs(variables, &call);
    call.results.resize(node->num_outputs());
    return call;
  }

  absl::flat_hash_map<const Node*, WeightPart> places_;
  absl::flat_hash_map<std::string, const JointUpdate::Variable*> numbers_;
  std::vector<std::pair<WeightPart, NodeEntry>> results_;
};

}  // namespace

absl::StatusOr<ArrayUpdate> ArrayUpdate::Make(const Optimizer& optimizer, absl::Span<const Weight> weights) {
  JointUpdate joint("");
  Nodes nodes;
  for (size_t k = 0; k < weights.size(); ++k) {
    Parameter parameter;
    parameter.name = weights[k].name;
    parameter.shape = weights[k].shape;
    parameter.dtype = weights[k].dtype;
    const size_t num_states = StatesOf(optimizer, parameter.shape, parameter.dtype).size();
    std::vector<NodeEntry> states;
    for (size_t s = 0; s < num_states; ++s) states.push_back(nodes.Variable(k, WeightPart::kFirstState + s));
    const std::vector<NodeEntry> before = states;
    NodeEntry weight32;
    if (HasWeight32(optimizer, parameter.dtype)) {
      weight32 = states.back();
      states.pop_back();
    }
    const bool has_weight32 = static_cast<bool>(weight32);
    joint.Begin(k);
    UpdateGraph update(joint, parameter, nodes.Variable(k, WeightPart::kWeight), nodes.Variable(k, WeightPart::kGradient),
                       std::move(states), std::move(weight32));
    RETURN_IF_ERROR(optimizer.Build(update));
    nodes.AddResult({k, WeightPart::kWeight}, update.weight);
    if (has_weight32) update.states.push_back(update.weight32);
    for (size_t s = 0; s < before.size(); ++s) {
      if (update.states[s].node == before[s].node) continue;  // An operator writes it.
      nodes.AddResult({k, WeightPart::kFirstState + s}, update.states[s]);
    }
  }
  RETURN_IF_ERROR(joint.Finish());
  ArrayUpdate update;
  ASSIGN_OR_RETURN(update.numbers_, NumberPlaces(joint, optimizer));
  update.calls_ = nodes.Calls(joint);
  return update;
}

}  // namespace gluond
