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

// Gradients have about so many nodes for each of the forward graph: these are paid for before any is made.
constexpr int64_t kGradientNodes = 2;

PreparedOpPtr PrepareGraph(const char* op, GraphCallPtr call) {
  std::vector<NodeEntry> inputs;
  for (const std::string& name : call->inputs) inputs.push_back(MakeVariable(name));
  return Prepared(MakeInternalNode(op, std::move(call), std::move(inputs)), /*recordable=*/true);
}

// One call gives the gradients of all inputs that have one.
absl::StatusOr<Gradients> GraphGradient(const NodePtr& node, const Gradients& heads) {
  const GraphCallPtr of_node = GraphCall::Of(node->attrs);
  const GraphCall& call = *of_node;
  RETURN_IF_ERROR(call.no_gradient);
  if (call.backward == nullptr) return Gradients(node->num_inputs());
  std::vector<NodeEntry> inputs(heads.begin(), heads.begin() + call.num_visible);
  inputs.push_back({node, call.num_visible});
  for (const uint32_t i : call.rewritten) inputs.push_back(node->inputs[i]);
  const NodePtr backward = MakeInternalNode("_backward_CachedOp", call.backward, std::move(inputs));
  Gradients gradients(node->num_inputs());
  for (uint32_t i = 0; i < call.gradients.size(); ++i) gradients[call.gradients[i]] = {backward, i};
  return gradients;
}

// A graph with what pays for its nodes, for all who hold the graph.
struct PaidGraph {
  Graph graph;
  std::shared_ptr<const void> charge;
};

uint32_t NumInputs(const NodeAttrs& attrs) { return static_cast<uint32_t>(GraphCall::Of(attrs)->inputs.size()); }
uint32_t NumVisible(const NodeAttrs& attrs) { return GraphCall::Of(attrs)->num_visible; }
uint32_t NumOutputs(const NodeAttrs& attrs) { return NumVisible(attrs) + (GraphCall::Of(attrs)->backward != nullptr ? 1 : 0); }
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
    .describe("The gradients of a graph's inputs: the rest of the recorded call's run.")
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

ExecutorQuery GraphCall::QueryFor(absl::Span<const Tensor> tensors, bool training) const {
  return {graph,
          {.is_train = training, .pause_after = backward == nullptr ? 0 : num_visible, .constants = training ? nullptr : constants},
          tensors};
}

ExecutorKeyPtr GraphCall::KeyFor(const ExecutorQuery& query) const {
  Signatures known;
  for (size_t i = 0; i < query.inputs.size(); ++i) known[inputs[i]] = {query.inputs[i].shape(), query.inputs[i].dtype()};
  return ExecutorKey::Make(query, std::move(known));
}

absl::StatusOr<Tensor> PausedCall::Make(PausedRun run, ExecutorKeyPtr key, Lane::Clock::duration took, Allocator& payer,
                                        std::shared_ptr<const void> counted) {
  const size_t num_tensors = run.run.inputs.size() + run.run.outputs.size() + run.own.size();
  absl::StatusOr<std::shared_ptr<Buffer>> charge = payer.Charge(sizeof(PausedCall) + num_tensors * sizeof(Tensor));
  if (!charge.ok()) return Annotate(charge.status(), "a recorded call that waits for backward");
  void* const data = run.arena == nullptr ? nullptr : run.arena->data();
  const size_t bytes = run.arena == nullptr ? 0 : run.arena->bytes();
  const std::shared_ptr<PausedCall> call(new PausedCall{
      {data, bytes, payer.device(), nullptr}, std::move(run), std::move(key), took, std::move(counted), *std::move(charge)});
  return Tensor(call, 0, {static_cast<int64_t>(bytes)}, DType::kUint8);
}

CachedGraph::CachedGraph(GraphCallPtr plain, PayForNodes pay)
    : plain_(std::move(plain)),
      pay_(std::move(pay)),
      plain_call_(PrepareGraph("_CachedOp", plain_)),
      auxiliary_(plain_->inputs.size()),
      differentiable_(kMostKept) {
  for (const uint32_t i : plain_->written) auxiliary_[i] = true;
}

absl::StatusOr<std::shared_ptr<CachedGraph>> CachedGraph::Create(Graph graph, std::vector<std::string> inputs,
                                                                 absl::Span<const uint32_t> parameters, PayForNodes pay) {
  const NodeOrder order(graph);
  RETURN_IF_ERROR(Validate(order));
  const absl::flat_hash_set<std::string> named(inputs.begin(), inputs.end());
  if (named.size() != inputs.size()) return absl::InvalidArgumentError("`inputs` names a variable twice");
  auto call = std::make_shared<GraphCall>();
  for (const NodePtr& node : order.nodes()) {
    call->begins_gradient = call->begins_gradient || node->facts().begins_gradient;
    if (!node->is_variable() || named.contains(node->name())) continue;
    return absl::InvalidArgumentError(absl::StrCat("variable '", Excerpt(node->name()), "' of the graph is not in `inputs`"));
  }
  absl::flat_hash_set<std::string> names;
  for (const uint32_t i : parameters) {
    if (i >= inputs.size()) {
      return absl::InvalidArgumentError(absl::StrCat("`parameters` has ", i, ", but there are ", inputs.size(), " inputs"));
    }
    names.insert(inputs[i]);
  }
  call->constants = std::make_shared<const absl::flat_hash_set<std::string>>(UnwrittenBy(graph, std::move(names)));
  const absl::flat_hash_set<std::string> written = MutatedVariables(order.nodes());
  for (uint32_t i = 0; i < inputs.size(); ++i)
    if (written.contains(inputs[i])) call->written.push_back(i);
  call->num_visible = static_cast<uint32_t>(graph.outputs.size());
  call->graph = std::make_shared<Graph>(std::move(graph));
  call->inputs = std::move(inputs);
  return std::shared_ptr<CachedGraph>(new CachedGraph(std::move(call), std::move(pay)));
}

PreparedOpPtr CachedGraph::Differentiable(const std::vector<bool>& wanted) {
  if (const PreparedOpPtr* const found = differentiable_.Find(wanted)) return *found;
  absl::StatusOr<GraphCallPtr> call = WithGradient(wanted);
  if (!call.ok()) {
    const absl::Status& why = call.status();
    const bool passes = absl::IsCancelled(why) || absl::IsDeadlineExceeded(why) || absl::IsResourceExhausted(why);
    auto without = std::make_shared<GraphCall>(*plain_);
    without->no_gradient = why;
    if (passes) return PrepareGraph("_CachedOp", std::move(without));  // The next caller may wait for the gradient.
    call = std::move(without);
  }
  return differentiable_.Insert(wanted, PrepareGraph("_CachedOp", *std::move(call)));
}

absl::StatusOr<GraphCallPtr> CachedGraph::WithGradient(const std::vector<bool>& wanted) const {
  const NodeOrder known(*plain_->graph);
  absl::flat_hash_map<std::string, NodeEntry> variables;
  for (const NodePtr& node : known.nodes()) {
    if (node->is_variable()) variables[node->name()] = {node, 0};
  }
  const auto pay = [this](int64_t nodes) -> absl::StatusOr<std::shared_ptr<const void>> {
    if (pay_ == nullptr) return nullptr;
    return Annotate(pay_(nodes), absl::StrCat("the ", nodes, " nodes of a graph's gradients"));
  };
  ASSIGN_OR_RETURN(std::shared_ptr<const void> charge, pay(kGradientNodes * static_cast<int64_t>(known.size())));
  auto forward = std::make_shared<GraphCall>();
  forward->inputs = plain_->inputs;
  forward->written = plain_->written;
  forward->num_visible = plain_->num_visible;
  forward->begins_gradient = plain_->begins_gradient;
  std::vector<NodeEntry> outputs = plain_->graph->outputs, xs, heads;
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    const auto variable = variables.find(plain_->inputs[i]);
    if (!wanted[i] || variable == variables.end() || is_auxiliary(i)) continue;
    forward->gradients.push_back(i);
    xs.push_back(variable->second);
  }
  const std::string prefix = UnusedPrefix("__", plain_->inputs);
  auto backward = std::make_shared<GraphCall>();
  for (const NodeEntry& output : outputs) {
    const std::string& name = backward->inputs.emplace_back(absl::StrCat(prefix, "head", backward->inputs.size()));
    heads.push_back(MakeNode("_identity_with_attr_like_rhs", name, {MakeVariable(name), output}));
  }
  ASSIGN_OR_RETURN(const Gradients gradients, BuildGradient(outputs, xs, heads));
  backward->num_visible = static_cast<uint32_t>(gradients.size());
  backward->paused_input = plain_->num_visible;
  backward->inputs.emplace_back();
  const std::vector<NodePtr> added = PostOrder(gradients, [&known](const Node* node) { return known.numbers.Has(node); });
  charge = nullptr;
  ASSIGN_OR_RETURN(charge, pay(static_cast<int64_t>(added.size())));
  const absl::flat_hash_set<std::string> rewritten = MutatedVariables(added);
  for (uint32_t i = 0; i < plain_->inputs.size(); ++i) {
    if (!rewritten.contains(plain_->inputs[i])) continue;
    forward->rewritten.push_back(i);
    backward->written.push_back(static_cast<uint32_t>(backward->inputs.size()));
    backward->inputs.push_back(plain_->inputs[i]);
  }
  outputs.insert(outputs.end(), gradients.begin(), gradients.end());
  const auto paid = std::make_shared<const PaidGraph>(PaidGraph{{std::move(outputs)}, std::move(charge)});
  forward->graph = {paid, &paid->graph};
  if (!gradients.empty()) forward->backward = std::move(backward);
  return forward;
}

}  // namespace gluond
