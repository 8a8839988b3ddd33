#include "engine/passes/rewrite.h"

#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "engine/core/status_macros.h"
#include "engine/passes/pass_work.h"

namespace gluond {

NodePtr WithInputs(const NodePtr& node, std::vector<NodeEntry> inputs) {
  const auto same = [](const NodeEntry& a, const NodeEntry& b) { return a.node == b.node && a.index == b.index; };
  if (absl::c_equal(inputs, node->inputs, same)) return node;
  auto copy = std::make_shared<Node>();
  copy->attrs = node->attrs;
  copy->inputs = std::move(inputs);
  return copy;
}

absl::StatusOr<Graph> Rewrite(const Graph& graph, absl::FunctionRef<NodePtr(const NodePtr& old, NodePtr renewed)> change) {
  const std::vector<NodePtr> order = PostOrder(graph.outputs);
  absl::flat_hash_map<const Node*, NodePtr> becomes;
  becomes.reserve(order.size());
  const auto stays = [&becomes](const NodeEntry& e) { return becomes.at(e.node.get()) == e.node; };
  const auto renewed = [&becomes](const std::vector<NodeEntry>& entries) {
    std::vector<NodeEntry> renewed;
    renewed.reserve(entries.size());
    for (const NodeEntry& e : entries) renewed.push_back({becomes.at(e.node.get()), e.index});
    return renewed;
  };
  PassWork work;
  for (const NodePtr& node : order) {
    RETURN_IF_ERROR(work.Add(1 + node->inputs.size()));
    const bool same = absl::c_all_of(node->inputs, stays);
    becomes[node.get()] = change(node, same ? node : WithInputs(node, renewed(node->inputs)));
  }
  return Graph{renewed(graph.outputs)};
}

}  // namespace gluond
