#include "engine/imperative/graph_call.h"

#include <algorithm>
#include <any>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/constants.h"
#include "engine/passes/gradient.h"
#include "engine/passes/validate.h"

namespace gluond {
namespace {

using GraphCallPtr = std::shared_ptr<const GraphCall>;

constexpr size_t kMostKept = 8;  // Differentiable calls of a graph.

PreparedOpPtr PrepareGraph(const char* op, GraphCallPtr call) {
  std::vector<NodeEntry> inputs;
  for (const std::string& name : call->inputs) inputs.push_back(MakeVariable(name));
  return Prepared(MakeInternalNode(op, std::move(call), std::move(inputs)), /*recordable=*/true);
}

// Copies the gradient's nodes, and replaces the forward entries that they read by variables.
class Cut {
 public:
  // The variables' names begin with `prefix`.
  Cut(const Graph& forward, std::string prefix) : prefix_(std::move(prefix)) {
    PostOrderVisit(forward.outputs, [this](const NodePtr& node) { forward_.insert(node.get()); });
  }

  std::vector<NodeEntry> Apply(const std::vector<NodeEntry>& gradients) {
    PostOrderVisit(gradients, [this](const NodePtr& node) {
      if (forward_.contains(node.get())) return;
      if (node->is_variable()) {
        copies_.emplace(node.get(), node);
        return;
      }
      auto copy = std::make_shared<Node>();
      copy->attrs = node->attrs;
      for (const NodeEntry& input : node->inputs) copy->inputs.push_back(Translate(input));
      copies_.emplace(node.get(), std::move(copy));
    });
    std::vector<NodeEntry> cut;
    for (const NodeEntry& gradient : gradients) cut.push_back(Translate(gradient));
    return cut;
  }

  const std::vector<NodeEntry>& saved() const { return saved_; }
  std::string SavedName(size_t i) const { return absl::StrCat(prefix_, "saved", i); }
  const absl::flat_hash_set<std::string>& variables() const { return variables_; }

 private:
  NodeEntry Translate(const NodeEntry& entry) {
    if (!forward_.contains(entry.node.get())) return {copies_.at(entry.node.get()), entry.index};
    if (entry.node->is_variable()) {
      variables_.insert(entry.node->name());
      return entry;
    }
    const auto [it, is_new] = places_.try_emplace({entry.node.get(), entry.index});
    if (is_new) {
      it->second = MakeVariable(SavedName(saved_.size()));
      saved_.push_back(entry);
    }
    return it->second;
  }

  const std::string prefix_;
  absl::flat_hash_set<const Node*> forward_;
  absl::flat_hash_map<const Node*, NodePtr> copies_;
  absl::flat_hash_map<std::pair<const Node*, uint32_t>, NodeEntry> places_;
  std::vector<NodeEntry> saved_;                // Entries of the forward pass that the gradient reads, in order.
  absl::flat_hash_set<std::string> variables_;  // Variables of the forward pass that it reads.
};

// One call gives the gradients of all inputs that have one.
absl::StatusOr<Gradients> GraphGradient(const NodePtr& node, const Gradients& heads) {
  const GraphCallPtr of_node = GraphCall::Of(node->attrs);
  const GraphCall& call = *of_node;
  RETURN_IF_ERROR(call.no_gradient);
  if (call.backward == nullptr) return Gradients(node->num_inputs());
  std::vector<NodeEntry> inputs(heads.begin(), heads.begin() + call.num_visible);
  const auto num_outputs = static_cast<uint32_t>(call.graph->outputs.size());
  for (uint32_t i = call.num_visible; i < num_outputs; ++i) inputs.push_back({node, i});
  for (const uint32_t i : call.backward_reads) inputs.push_back(node->inputs[i]);
  const NodePtr backward = MakeInternalNode("_backward_CachedOp", call.backward, std::move(inputs));
  Gradients gradients(node->num_inputs());
  for (uint32_t i = 0; i < call.gradients.size(); ++i) gradients[call.gradients[i]] = {backward, i};
  return gradients;
}

uint32_t NumInputs(const NodeAttrs& attrs) { return static_cast<uint32_t>(GraphCall::Of(attrs)->inputs.size()); }
uint32_t NumOutputs(const NodeAttrs& attrs) { return static_cast<uint32_t>(GraphCall::Of(attrs)->graph->outputs.size()); }
uint32_t NumVisible(const NodeAttrs& attrs) { return GraphCall::Of(attrs)->num_visible; }
bool Begins(const NodeAttrs& attrs) { return GraphCall::Of(attrs)->begins_gradient; }
std::vector<uint32_t> Written(const NodeAttrs& attrs) { return GraphCall::Of(attrs)->written; }

GLUOND_REGISTER_OP(_CachedOp)
    .describe("A graph, called like an operator. Made by the imperative API; not to be called by name.")
    .set_attr_parser([](NodeAttrs*) { return absl::InvalidArgumentError("it is not to be called by name"); })
    .set_num_inputs(NumInputs)
    .set_num_outputs(NumOutputs)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", NumVisible)
    .set_attr<FMutateInputs>("FMutateInputs", Written)
    .set_attr<FBeginsGradient>("FBeginsGradient", Begins)
    .set_attr<FGradient>("FGradient", GraphGradient);

GLUOND_REGISTER_OP(_backward_CachedOp)
    .describe("The gradients of a graph's inputs.")
    .set_attr_parser([](NodeAttrs*) { return absl::InvalidArgumentError("it is not to be called by name"); })
    .set_num_inputs(NumInputs)
    .set_num_outputs(NumOutputs)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", NumVisible)
    .set_attr<FMutateInputs>("FMutateInputs", Written)
    .set_attr<FGradient>("FGradient", [](const NodePtr&, const Gradients&) -> absl::StatusOr<Gradients> {
      return absl::InvalidArgumentError(
          "CachedOp does not support higher order gradients. If you want to do backward with create_graph=True please "
          "do not use hybridize.");
    });

}  // namespace

GraphCallPtr GraphCall::Of(const NodeAttrs& attrs) {
  const auto* call = std::any_cast<GraphCallPtr>(&attrs.parsed);
  return call == nullptr ? nullptr : *call;
}

ExecutorKeyPtr GraphCall::KeyOf(absl::Span<const Tensor> tensors, bool training) const {
  if (const ExecutorKeyPtr* const found = keys_[training].Find(tensors)) return *found;
  Signatures known;
  for (size_t i = 0; i < tensors.size(); ++i) known[inputs[i]] = {tensors[i].shape(), tensors[i].dtype()};
  return keys_[training].Insert(
      tensors, ExecutorKey::Make(graph, std::move(known), {.is_train = training, .constants = training ? nullptr : constants}));
}

CachedGraph::CachedGraph(GraphCallPtr plain)
    : plain_(std::move(plain)),
      plain_call_(PrepareGraph("_CachedOp", plain_)),
      auxiliary_(plain_->inputs.size()),
      differentiable_(kMostKept) {
  for (const uint32_t i : plain_->written) auxiliary_[i] = true;
}

absl::StatusOr<std::shared_ptr<CachedGraph>> CachedGraph::Create(Graph graph, std::vector<std::string> inputs,
                                                                 absl::Span<const uint32_t> parameters) {
  RETURN_IF_ERROR(Validate(graph));
  const absl::flat_hash_set<std::string> named(inputs.begin(), inputs.end());
  if (named.size() != inputs.size()) return absl::InvalidArgumentError("`inputs` names a variable twice");
  std::string missing;
  PostOrderVisit(graph.outputs, [&](const NodePtr& node) {
    if (node->is_variable() && !named.contains(node->name())) missing = node->name();
  });
  if (!missing.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("variable '", Excerpt(missing), "' of the graph is not in `inputs`"));
  }
  absl::flat_hash_set<std::string> names;
  for (const uint32_t i : parameters) {
    if (i >= inputs.size()) {
      return absl::InvalidArgumentError(absl::StrCat("`parameters` has ", i, ", but there are ", inputs.size(), " inputs"));
    }
    names.insert(inputs[i]);
  }
  auto call = std::make_shared<GraphCall>();
  call->constants = std::make_shared<const absl::flat_hash_set<std::string>>(UnwrittenBy(graph, std::move(names)));
  const absl::flat_hash_set<std::string> written = MutatedVariables(graph.outputs);
  for (uint32_t i = 0; i < inputs.size(); ++i)
    if (written.contains(inputs[i])) call->written.push_back(i);
  call->num_visible = static_cast<uint32_t>(graph.outputs.size());
  PostOrderVisit(graph.outputs,
                 [&](const NodePtr& node) { call->begins_gradient = call->begins_gradient || node->facts().begins_gradient; });
  call->graph = std::make_shared<Graph>(std::move(graph));
  call->inputs = std::move(inputs);
  return std::shared_ptr<CachedGraph>(new CachedGraph(std::move(call)));
}

PreparedOpPtr CachedGraph::Differentiable(const std::vector<bool>& wanted) {
  if (const PreparedOpPtr* const found = differentiable_.Find(wanted)) return *found;
  absl::StatusOr<GraphCallPtr> call = WithGradient(wanted);
  if (!call.ok()) {
    auto without = std::make_shared<GraphCall>(*plain_);
    without->no_gradient = call.status();
    call = std::move(without);
  }
  return differentiable_.Insert(wanted, PrepareGraph("_CachedOp", *std::move(call)));
}

absl::StatusOr<GraphCallPtr> CachedGraph::WithGradient(const std::vector<bool>& wanted) const {
  absl::flat_hash_map<std::string, NodeEntry> variables;
  PostOrderVisit(plain_->graph->outputs, [&](const NodePtr& node) {
    if (node->is_variable()) variables[node->name()] = {node, 0};
  });
  auto forward = std::make_shared<GraphCall>();  // A copy would have the plain graph's executors.
  forward->inputs = plain_->inputs;
  forward->written = plain_->written;
  forward->num_visible = plain_->num_visible;
  forward->begins_gradient = plain_->begins_gradient;
  auto backward = std::make_shared<GraphCall>();
  // A prefix that no name of the graph begins with.
  std::string prefix = "__";
  while (std::any_of(plain_->inputs.begin(), plain_->inputs.end(),
                     [&](const std::string& name) { return absl::StartsWith(name, prefix); })) {
    prefix += '_';
  }
  std::vector<NodeEntry> xs, heads;
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    const auto variable = variables.find(plain_->inputs[i]);
    if (!wanted[i] || variable == variables.end() || is_auxiliary(i)) continue;
    forward->gradients.push_back(i);
    xs.push_back(variable->second);
  }
  for (uint32_t i = 0; i < plain_->num_visible; ++i) {
    backward->inputs.push_back(absl::StrCat(prefix, "head", i));
    heads.push_back(MakeVariable(backward->inputs.back()));
  }
  ASSIGN_OR_RETURN(const Gradients gradients, BuildGradient(plain_->graph->outputs, xs, heads));

  Cut cut(*plain_->graph, prefix);
  auto backward_graph = std::make_shared<Graph>(Graph{cut.Apply(gradients)});
  auto forward_graph = std::make_shared<Graph>(*plain_->graph);
  for (size_t i = 0; i < cut.saved().size(); ++i) {
    forward_graph->outputs.push_back(cut.saved()[i]);
    backward->inputs.push_back(cut.SavedName(i));
  }
  for (uint32_t i = 0; i < plain_->inputs.size(); ++i) {
    if (!cut.variables().contains(plain_->inputs[i])) continue;
    forward->backward_reads.push_back(i);
    backward->inputs.push_back(plain_->inputs[i]);
  }
  const absl::flat_hash_set<std::string> written = MutatedVariables(backward_graph->outputs);
  for (uint32_t i = 0; i < backward->inputs.size(); ++i) {
    if (written.contains(backward->inputs[i])) backward->written.push_back(i);
  }
  backward->num_visible = static_cast<uint32_t>(backward_graph->outputs.size());
  backward->graph = std::move(backward_graph);
  forward->graph = std::move(forward_graph);
  forward->backward = std::move(backward);
  return forward;
}

}  // namespace gluond
