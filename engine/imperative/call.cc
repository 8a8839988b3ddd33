#include "engine/imperative/call.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "engine/core/begins_gradient.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/copy_call.h"
#include "engine/imperative/graph_call.h"

namespace gluond {
namespace {

// Marks what the gradient's nodes read of `node` and of its inputs.
void FindGradientReads(const NodePtr& node, Call* call) {
  const auto* gradient = node->op()->GetAttr<FGradient>("FGradient");
  call->gradient_reads_input.assign(node->num_inputs(), false);
  call->gradient_reads_output.assign(call->num_outputs, false);
  if (gradient == nullptr) return;
  Gradients heads;
  for (uint32_t i = 0; i < call->num_outputs; ++i) heads.push_back(MakeVariable("head"));
  const absl::StatusOr<Gradients> gradients = (*gradient)(node, heads);
  if (!gradients.ok()) return;  // Backward will say so.
  std::vector<bool> reads_head(call->num_outputs, false);
  // The marks of inputs and heads by their nodes, until something reads these: a call may have tens of thousands.
  absl::flat_hash_map<const Node*, absl::InlinedVector<std::vector<bool>::reference, 1>> unread;
  for (uint32_t i = 0; i < node->num_inputs(); ++i) {
    unread[node->inputs[i].node.get()].push_back(call->gradient_reads_input[i]);
  }
  for (uint32_t i = 0; i < call->num_outputs; ++i) unread[heads[i].node.get()].push_back(reads_head[i]);
  const auto read = [&](const NodeEntry& entry) {
    if (entry.node == node) call->gradient_reads_output[entry.index] = true;
    const auto marks = unread.find(entry.node.get());
    if (marks == unread.end()) return;
    for (std::vector<bool>::reference mark : marks->second) mark = true;
    unread.erase(marks);
  };
  for (const NodeEntry& entry : *gradients) if (entry) read(entry);
  PostOrderVisit(*gradients, [&](const NodePtr& visited) {
    if (visited != node) for (const NodeEntry& input : visited->inputs) read(input);
  });
  // Where an output has no head gradient, zeros like it stand for that. A single visible output has one, unless the
  // node begins a gradient.
  const bool first_has_head = call->num_visible == 1 && !BeginsGradient(*node);
  for (uint32_t i = first_has_head ? 1 : 0; i < call->num_outputs; ++i) {
    if (reads_head[i]) call->gradient_reads_output[i] = true;
  }
}

bool Draws(const NodeAttrs& attrs) {
  const auto* request = attrs.op->GetAttr<FResourceRequest>("FResourceRequest");
  if (request == nullptr) return false;
  const std::vector<ResourceRequest> resources = (*request)(attrs);
  return std::find(resources.begin(), resources.end(), ResourceRequest::kRandom) != resources.end();
}

// The graph of this one call, with all of its outputs.
std::shared_ptr<const GraphCall> GraphOf(const Node& node, const Call& call) {
  auto copy = std::make_shared<Node>();
  auto graph = std::make_shared<GraphCall>();
  copy->attrs = node.attrs;
  for (uint32_t i = 0; i < node.num_inputs(); ++i) {
    graph->inputs.push_back(absl::StrCat("input", i));
    copy->inputs.push_back(MakeVariable(graph->inputs.back()));
  }
  auto outputs = std::make_shared<Graph>();
  for (uint32_t i = 0; i < call.num_outputs; ++i) outputs->outputs.push_back({copy, i});
  graph->graph = std::move(outputs);
  graph->written = call.written;
  graph->num_visible = call.num_visible;
  return graph;
}

}  // namespace

bool NeedsExecutor(const NodeAttrs& attrs) {
  const auto* type = attrs.op->GetAttr<FExecType>("FExecType");
  return (type != nullptr && (*type)(attrs) == ExecType::kAsync) || attrs.op->HasAttr("FCreateOpState");
}

CallPtr CallOf(NodePtr node, bool recordable) {
  auto call = std::make_shared<Call>();
  const NodeAttrs& attrs = node->attrs;
  const Op& op = *node->op();
  call->num_outputs = op.num_outputs(attrs);
  call->num_visible = op.num_visible_outputs(attrs);
  if (const auto* mutate = op.GetAttr<FMutateInputs>("FMutateInputs")) call->written = (*mutate)(attrs);
  if (const auto* in_place = op.GetAttr<FInplaceOption>("FInplaceOption")) call->in_place = (*in_place)(attrs);
  if (const auto* identity = op.GetAttr<FInplaceIdentity>("FInplaceIdentity")) call->identity = (*identity)(attrs);
  call->identity.resize(call->in_place.size());
  call->draws = Draws(attrs);
  call->copies = IsCopyCall(op);
  call->infer_shape = op.GetAttr<FInferShape>("FInferShape");
  call->infer_type = op.GetAttr<FInferType>("FInferType");
  call->compute[0] = op.GetAttr<FCompute>("FCompute<cpu>");
  call->compute[1] = op.GetAttr<FCompute>("FCompute<gpu>");
  call->graph = GraphCall::Of(attrs);
  if (call->graph == nullptr && NeedsExecutor(attrs)) call->graph = GraphOf(*node, *call);
  if (recordable) FindGradientReads(node, call.get());
  call->node = std::move(node);
  return call;
}

absl::StatusOr<CallPtr> MakeCall(absl::string_view op, const AttrDict& attrs, size_t num_inputs) {
  std::vector<NodeEntry> inputs;
  inputs.reserve(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) inputs.push_back(MakeVariable("input"));
  ASSIGN_OR_RETURN(NodePtr node, TryMakeNode(op, std::string(op), std::move(inputs), attrs));
  return CallOf(std::move(node), /*recordable=*/true);
}

}  // namespace gluond
