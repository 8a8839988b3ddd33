#include "engine/passes/rewrite.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "engine/core/node_memory.h"
#include "engine/core/status_macros.h"
#include "engine/passes/pass_work.h"

namespace gluond {

NodePtr WithInputs(const NodePtr& node, std::vector<NodeEntry> inputs) {
  const auto same = [](const NodeEntry& a, const NodeEntry& b) { return a.node == b.node && a.index == b.index; };
  if (absl::c_equal(inputs, node->inputs, same)) return node;
  auto copy = NewNode();
  copy->attrs = node->attrs;
  copy->inputs = std::move(inputs);
  return copy;
}

absl::StatusOr<Graph> Rewrite(const NodeOrder& order, absl::FunctionRef<NodePtr(const NodePtr& old, NodePtr renewed)> change) {
  std::vector<NodePtr> becomes;
  becomes.reserve(order.size());
  PassWork work;
  for (uint32_t i = 0; i < order.size(); ++i) {
    const NodePtr& node = order.nodes[i];
    const absl::Span<const uint32_t> from = order.inputs_of(i);
    RETURN_IF_ERROR(work.Add(1 + from.size()));
    NodePtr renewed = node;
    if (absl::c_any_of(from, [&](uint32_t input) { return becomes[input] != order.nodes[input]; })) {
      renewed = NewNode();
      renewed->attrs = node->attrs;
      renewed->inputs.reserve(from.size());
      for (size_t k = 0; k < from.size(); ++k) renewed->inputs.push_back({becomes[from[k]], node->inputs[k].index});
    }
    becomes.push_back(change(node, std::move(renewed)));
  }
  Graph graph;
  for (const NodeOrder::Output& output : order.outputs) graph.outputs.push_back({becomes[output.node], output.index});
  return graph;
}

}  // namespace gluond
