#include "engine/passes/simplify.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "engine/core/op_facts.h"

namespace gluond {
namespace {

using Entry = std::pair<const Node*, uint32_t>;

// Equal calls have equal keys.
struct CallKey {
  const Op* op;
  std::vector<std::pair<std::string, std::string>> dict;
  std::vector<Entry> inputs;

  explicit CallKey(const Node& node) : op(node.op()), dict(node.attrs.dict.begin(), node.attrs.dict.end()) {
    for (const NodeEntry& e : node.inputs) inputs.emplace_back(e.node.get(), e.index);
  }
  friend bool operator==(const CallKey& a, const CallKey& b) { return a.op == b.op && a.inputs == b.inputs && a.dict == b.dict; }
  template <class H>
  friend H AbslHashValue(H h, const CallKey& k) {
    return H::combine(std::move(h), k.op, k.dict, k.inputs);
  }
};

// The entries that nodes write as their inputs: a read gives another value before and after.
absl::flat_hash_set<Entry> MutatedEntries(absl::Span<const NodePtr> nodes) {
  absl::flat_hash_set<Entry> mutated;
  for (const NodePtr& node : nodes) {
    for (const uint32_t i : node->facts().mutated) {
      if (i < node->inputs.size()) mutated.emplace(node->inputs[i].node.get(), node->inputs[i].index);
    }
  }
  return mutated;
}

class Simplifier {
 public:
  explicit Simplifier(absl::Span<const NodePtr> nodes) : mutated_(MutatedEntries(nodes)) {
    for (const NodePtr& node : nodes) becomes_[node.get()] = node->is_variable() ? node : Merge(Renewed(node));
  }

  NodePtr operator[](const NodePtr& node) const { return becomes_.at(node.get()); }

 private:
  // The node, or a copy of it where something that it needs has become another node.
  NodePtr Renewed(const NodePtr& node) const {
    const auto same = [this](const NodeEntry& e) { return (*this)[e.node] == e.node; };
    if (std::all_of(node->inputs.begin(), node->inputs.end(), same)) return node;
    auto copy = std::make_shared<Node>();
    copy->attrs = node->attrs;
    for (const NodeEntry& e : node->inputs) copy->inputs.push_back({(*this)[e.node], e.index});
    return copy;
  }

  // The first node that makes the same call, or this one.
  NodePtr Merge(const NodePtr& node) {
    const bool reads_mutated =
        !mutated_.empty() && std::any_of(node->inputs.begin(), node->inputs.end(),
                                         [this](const NodeEntry& e) { return mutated_.contains(Entry(e.node.get(), e.index)); });
    if (reads_mutated || !node->facts().pure) return node;
    return calls_.try_emplace(CallKey(*node), node).first->second;
  }

  const absl::flat_hash_set<Entry> mutated_;
  absl::flat_hash_map<const Node*, NodePtr> becomes_;
  absl::flat_hash_map<CallKey, NodePtr> calls_;
};

}  // namespace

Graph Simplify(const Graph& graph) {
  const Simplifier simplifier(PostOrder(graph.outputs));
  Graph simplified;
  for (const NodeEntry& e : graph.outputs) simplified.outputs.push_back({simplifier[e.node], e.index});
  return simplified;
}

}  // namespace gluond
