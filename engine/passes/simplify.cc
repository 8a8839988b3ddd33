#include "engine/passes/simplify.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "engine/core/op_facts.h"
#include "engine/passes/rewrite.h"

namespace gluond {
namespace {

using Entry = std::pair<const Node*, uint32_t>;

struct CallHash {
  size_t operator()(const NodePtr& call) const {
    size_t hash = absl::HashOf(call->op());
    for (const auto& [key, value] : call->attrs.dict) hash = absl::HashOf(hash, key, value);
    for (const NodeEntry& e : call->inputs) hash = absl::HashOf(hash, e.node.get(), e.index);
    return hash;
  }
};

struct EqualCalls {
  bool operator()(const NodePtr& a, const NodePtr& b) const {
    const auto same = [](const NodeEntry& x, const NodeEntry& y) { return x.node == y.node && x.index == y.index; };
    return a->op() == b->op() && absl::c_equal(a->inputs, b->inputs, same) && a->attrs.dict == b->attrs.dict;
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

absl::StatusOr<Graph> Simplify(const NodeOrder& order) {
  const absl::flat_hash_set<Entry> mutated = MutatedEntries(order.nodes);
  const auto touches_mutated = [&mutated](const Node& node) {
    if (mutated.empty()) return false;
    for (uint32_t i = 0; i < node.num_outputs(); ++i) {
      if (mutated.contains(Entry(&node, i))) return true;
    }
    return absl::c_any_of(node.inputs, [&](const NodeEntry& e) { return mutated.contains(Entry(e.node.get(), e.index)); });
  };
  absl::flat_hash_set<NodePtr, CallHash, EqualCalls> calls;
  calls.reserve(order.size());  // To grow is to read all calls anew.
  // The first node that makes the same call, or this one.
  return Rewrite(order, [&](const NodePtr& old, NodePtr node) {
    if (node->is_variable() || !node->facts().pure || touches_mutated(*old)) return node;
    return *calls.insert(std::move(node)).first;
  });
}

}  // namespace gluond
