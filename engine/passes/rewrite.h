// Rewriting: passes change no node, since graphs and threads share nodes. A pass copies the nodes that it changes, and
// those that read them.

#ifndef ENGINE_PASSES_REWRITE_H_
#define ENGINE_PASSES_REWRITE_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "engine/core/graph.h"

namespace gluond {

// The node with other inputs, one for each of its own: a copy, or the node itself where all are the same.
inline NodePtr WithInputs(const NodePtr& node, std::vector<NodeEntry> inputs) {
  const auto same = [](const NodeEntry& a, const NodeEntry& b) { return a.node == b.node && a.index == b.index; };
  if (std::equal(inputs.begin(), inputs.end(), node->inputs.begin(), node->inputs.end(), same)) return node;
  auto copy = std::make_shared<Node>();
  copy->attrs = node->attrs;
  copy->inputs = std::move(inputs);
  return copy;
}

// The graph in which the result of `change` stands for each node. Nodes come inputs first; `change` gets the old node, and
// that node with its new inputs, which stands for the old one where `change` has nothing better.
inline Graph Rewrite(const Graph& graph, absl::FunctionRef<NodePtr(const NodePtr& old, NodePtr renewed)> change) {
  absl::flat_hash_map<const Node*, NodePtr> becomes;
  PostOrderVisit(graph.outputs, [&](const NodePtr& node) {
    std::vector<NodeEntry> inputs;
    inputs.reserve(node->inputs.size());
    for (const NodeEntry& e : node->inputs) inputs.push_back({becomes.at(e.node.get()), e.index});
    becomes[node.get()] = change(node, WithInputs(node, std::move(inputs)));
  });
  Graph rewritten;
  for (const NodeEntry& e : graph.outputs) rewritten.outputs.push_back({becomes.at(e.node.get()), e.index});
  return rewritten;
}

}  // namespace gluond

#endif  // ENGINE_PASSES_REWRITE_H_
