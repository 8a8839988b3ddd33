#include "engine/passes/simplify.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "engine/core/op_facts.h"
#include "engine/passes/rewrite.h"

namespace gluond {
namespace {

using Entry = std::pair<const Node*, uint32_t>;

// Calls by number: a large graph's set stays in the processor's cache.
using Calls = std::vector<const NodePtr*>;

struct CallHash {
  const Calls* calls;

  size_t operator()(uint32_t number) const {
    const Node& call = **(*calls)[number];
    size_t hash = absl::HashOf(call.op());
    for (const auto& [key, value] : call.attrs.dict) hash = absl::HashOf(hash, key, value);
    for (const NodeEntry& e : call.inputs) hash = absl::HashOf(hash, e.node.get(), e.index);
    return hash;
  }
};

struct EqualCalls {
  const Calls* calls;

  bool operator()(uint32_t x, uint32_t y) const {
    const auto same = [](const NodeEntry& x, const NodeEntry& y) { return x.node == y.node && x.index == y.index; };
    const Node &a = **(*calls)[x], &b = **(*calls)[y];
    return a.op() == b.op() && absl::c_equal(a.inputs, b.inputs, same) && a.attrs.dict == b.attrs.dict;
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
  const absl::flat_hash_set<Entry> mutated = MutatedEntries(order.nodes());
  const auto touches_mutated = [&mutated](const Node& node) {
    if (mutated.empty()) return false;
    for (uint32_t i = 0; i < node.num_outputs(); ++i) {
      if (mutated.contains(Entry(&node, i))) return true;
    }
    return absl::c_any_of(node.inputs, [&](const NodeEntry& e) { return mutated.contains(Entry(e.node.get(), e.index)); });
  };
  Calls calls;
  calls.reserve(order.size());
  absl::flat_hash_set<uint32_t, CallHash, EqualCalls> numbers(order.size(), CallHash{&calls}, EqualCalls{&calls});
  // The first node that makes the same call, or this one.
  return Rewrite(order, [&](const NodePtr& old, const NodePtr& node) -> NodePtr {
    if (node->is_variable() || !node->facts().pure || touches_mutated(*old)) return nullptr;
    calls.push_back(&node);
    const auto number = static_cast<uint32_t>(calls.size() - 1);
    const uint32_t first = *numbers.insert(number).first;
    if (first == number) return nullptr;
    calls.pop_back();
    return *calls[first];
  });
}

}  // namespace gluond
