#include "engine/passes/rewrite.h"

#include <deque>
#include <utility>
#include <vector>

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

absl::StatusOr<Graph> Rewrite(const NodeOrder& order,
                              absl::FunctionRef<NodePtr(const NodePtr& old, const NodePtr& renewed)> change) {
  std::deque<NodePtr> made;
  std::vector<const NodePtr*> becomes;  // By number: in `order`, or in `made`.
  becomes.reserve(order.size());
  PassWork work;
  for (uint32_t i = 0; i < order.size(); ++i) {
    const NodePtr& node = order.nodes()[i];
    const absl::Span<const uint32_t> from = order.inputs_of(i);
    RETURN_IF_ERROR(work.Add(1 + from.size()));
    const NodePtr* renewed = &node;
    if (absl::c_any_of(from, [&](uint32_t input) { return becomes[input] != &order.nodes()[input]; })) {
      const NodePtr& copy = made.emplace_back(NewNode());
      copy->attrs = node->attrs;
      copy->inputs.reserve(from.size());
      for (size_t k = 0; k < from.size(); ++k) copy->inputs.push_back({*becomes[from[k]], node->inputs[k].index});
      renewed = &copy;
    }
    NodePtr changed = change(node, *renewed);
    const bool same = changed == nullptr || changed == *renewed;
    becomes.push_back(same ? renewed : &made.emplace_back(std::move(changed)));
  }
  Graph graph;
  for (const NodeOrder::Output& output : order.outputs) graph.outputs.push_back({*becomes[output.node], output.index});
  return graph;
}

}  // namespace gluond
