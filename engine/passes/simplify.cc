#include "engine/passes/simplify.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "engine/core/op_facts.h"
#include "engine/passes/rewrite.h"

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

}  // namespace

Graph Simplify(const Graph& graph) {
  const absl::flat_hash_set<Entry> mutated = MutatedEntries(PostOrder(graph.outputs));
  const auto touches_mutated = [&mutated](const Node& node) {
    if (mutated.empty()) return false;
    for (uint32_t i = 0; i < node.num_outputs(); ++i) {
      if (mutated.contains(Entry(&node, i))) return true;
    }
    return absl::c_any_of(node.inputs, [&](const NodeEntry& e) { return mutated.contains(Entry(e.node.get(), e.index)); });
  };
  absl::flat_hash_map<CallKey, NodePtr> calls;
  // The first node that makes the same call, or this one.
  return Rewrite(graph, [&](const NodePtr& old, NodePtr node) {
    if (node->is_variable() || !node->facts().pure || touches_mutated(*old)) return node;
    return calls.try_emplace(CallKey(*node), node).first->second;
  });
}

}  // namespace gluond
