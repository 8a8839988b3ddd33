#include "engine/imperative/prepared_op.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/copy_op.h"
#include "engine/imperative/graph_call.h"

namespace gluond {
namespace {

// Marks the outputs and inputs of `node` that the gradient's nodes read.
void FindGradientReads(const NodePtr& node, PreparedOp* op) {
  const OpFacts& facts = node->facts();
  const FGradient* gradient = facts.gradient;
  op->gradient_reads_input.assign(node->num_inputs(), false);
  op->gradient_reads_output.assign(facts.num_outputs, false);
  if (gradient == nullptr) return;
  Gradients heads;
  for (uint32_t i = 0; i < facts.num_outputs; ++i) heads.push_back(MakeVariable("head"));
  const absl::StatusOr<Gradients> gradients = (*gradient)(node, heads);
  if (!gradients.ok()) return;  // Backward will say so.
  std::vector<bool> reads_head(facts.num_outputs, false);
  // The marks of inputs and heads that nothing has read so far, by node: a call may have tens of thousands.
  absl::flat_hash_map<const Node*, absl::InlinedVector<std::vector<bool>::reference, 1>> unread;
  for (uint32_t i = 0; i < node->num_inputs(); ++i) {
    unread[node->inputs[i].node.get()].push_back(op->gradient_reads_input[i]);
  }
  for (uint32_t i = 0; i < facts.num_outputs; ++i) unread[heads[i].node.get()].push_back(reads_head[i]);
  const auto read = [&](const NodeEntry& entry) {
    if (entry.node == node) op->gradient_reads_output[entry.index] = true;
    const auto marks = unread.find(entry.node.get());
    if (marks == unread.end()) return;
    for (std::vector<bool>::reference mark : marks->second) mark = true;
    unread.erase(marks);
  };
  for (const NodeEntry& entry : *gradients)
    if (entry) read(entry);
  PostOrderVisit(*gradients, [&](const NodePtr& visited) {
    if (visited != node)
      for (const NodeEntry& input : visited->inputs) read(input);
  });
  // Zeros like the output stand for a missing head gradient. A single visible output has a head gradient, unless the
  // node begins a gradient.
  const bool first_has_head = facts.num_visible == 1 && !facts.begins_gradient;
  for (uint32_t i = first_has_head ? 1 : 0; i < facts.num_outputs; ++i) {
    if (reads_head[i]) op->gradient_reads_output[i] = true;
  }
}

// The graph of this one call, with all of its outputs.
std::shared_ptr<const GraphCall> GraphOf(const Node& node) {
  auto copy = std::make_shared<Node>();
  auto graph = std::make_shared<GraphCall>();
  copy->attrs = node.attrs;
  for (uint32_t i = 0; i < node.num_inputs(); ++i) {
    graph->inputs.push_back(absl::StrCat("input", i));
    copy->inputs.push_back(MakeVariable(graph->inputs.back()));
  }
  auto outputs = std::make_shared<Graph>();
  for (uint32_t i = 0; i < node.num_outputs(); ++i) outputs->outputs.push_back({copy, i});
  graph->graph = std::move(outputs);
  graph->written = node.facts().mutated;
  graph->num_visible = node.facts().num_visible;
  return graph;
}

}  // namespace

PreparedOpPtr Prepared(NodePtr node, bool recordable) {
  auto op = std::make_shared<PreparedOp>();
  op->copies = IsCopyOp(*node->op());
  op->graph = GraphCall::Of(node->attrs);
  if (op->graph == nullptr && node->facts().async) op->graph = GraphOf(*node);
  if (recordable) FindGradientReads(node, op.get());
  op->node = std::move(node);
  return op;
}

NodePtr MakeInternalNode(const char* op, std::any parsed, std::vector<NodeEntry> inputs) {
  auto node = std::make_shared<Node>();
  node->attrs.op = Op::Find(op);
  node->attrs.name = op;
  node->attrs.parsed = std::move(parsed);
  FindFacts(&node->attrs);
  node->inputs = std::move(inputs);
  return node;
}

absl::StatusOr<PreparedOpPtr> PreparedOps::Find(absl::string_view op, const AttrDict& attrs, size_t num_inputs,
                                                absl::FunctionRef<absl::StatusOr<PreparedOpPtr>()> make) {
  std::string key = absl::StrCat(op, "\n", num_inputs);
  for (const auto& [name, text] : attrs) {
    absl::StrAppend(&key, "\n", name.size(), ":", name, "=", text.size(), ":", text);
  }
  if (const PreparedOpPtr* const found = ops_.Find(key)) return *found;
  ASSIGN_OR_RETURN(PreparedOpPtr prepared, make());
  return ops_.Insert(std::move(key), std::move(prepared));
}

absl::StatusOr<PreparedOpPtr> PrepareOp(absl::string_view op, const AttrDict& attrs, size_t num_inputs) {
  std::vector<NodeEntry> inputs;
  inputs.reserve(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) inputs.push_back(MakeVariable("input"));
  ASSIGN_OR_RETURN(NodePtr node, TryMakeNode(op, std::string(op), std::move(inputs), attrs));
  return Prepared(std::move(node), /*recordable=*/true);
}

}  // namespace gluond
