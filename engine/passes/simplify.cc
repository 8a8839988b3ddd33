#include "engine/passes/simplify.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "engine/core/op.h"

namespace gluond {
namespace {

using Entry = std::pair<const Node*, uint32_t>;

// Equal calls have equal keys.
struct CallKey {
  const Op* op;
  std::vector<std::pair<std::string, std::string>> dict;
  std::vector<Entry> inputs;
  std::vector<const Node*> control_deps;

  explicit CallKey(const Node& node) : op(node.op()), dict(node.attrs.dict.begin(), node.attrs.dict.end()) {
    for (const NodeEntry& e : node.inputs) inputs.emplace_back(e.node.get(), e.index);
    for (const NodePtr& n : node.control_deps) control_deps.push_back(n.get());
  }
  friend bool operator==(const CallKey& a, const CallKey& b) {
    return a.op == b.op && a.inputs == b.inputs && a.control_deps == b.control_deps && a.dict == b.dict;
  }
  template <class H>
  friend H AbslHashValue(H h, const CallKey& k) {
    return H::combine(std::move(h), k.op, k.dict, k.inputs, k.control_deps);
  }
};

// What a node gives depends on its attributes and inputs only, and it does nothing else.
bool IsPure(const Node& node) {
  const Op& op = *node.op();
  if (op.HasAttr("FMutateInputs") || op.HasAttr("FCreateOpState") || op.HasAttr("FStatefulCompute<cpu>") ||
      op.HasAttr("FStatefulCompute<gpu>")) {
    return false;
  }
  if (const auto* type = op.GetAttr<FExecType>("FExecType"); type && (*type)(node.attrs) == ExecType::kAsync) {
    return false;
  }
  if (op.GetAttr<THasDeterministicOutput>("THasDeterministicOutput", false)) return true;
  const auto* request = op.GetAttr<FResourceRequest>("FResourceRequest");
  if (request == nullptr) return true;
  const std::vector<ResourceRequest> resources = (*request)(node.attrs);
  return std::find(resources.begin(), resources.end(), ResourceRequest::kRandom) == resources.end();
}

// The entries that nodes write as their inputs: what is read of them depends on when.
absl::flat_hash_set<Entry> MutatedEntries(absl::Span<const NodePtr> nodes) {
  absl::flat_hash_set<Entry> mutated;
  for (const NodePtr& node : nodes) {
    const auto* f = node->is_variable() ? nullptr : node->op()->GetAttr<FMutateInputs>("FMutateInputs");
    if (f == nullptr) continue;
    for (const uint32_t i : (*f)(node->attrs)) {
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
    const auto same = [this](const NodePtr& n) { return (*this)[n] == n; };
    if (std::all_of(node->inputs.begin(), node->inputs.end(), [&](const NodeEntry& e) { return same(e.node); }) &&
        std::all_of(node->control_deps.begin(), node->control_deps.end(), same)) {
      return node;
    }
    auto copy = std::make_shared<Node>();
    copy->attrs = node->attrs;
    for (const NodeEntry& e : node->inputs) copy->inputs.push_back({(*this)[e.node], e.index});
    for (const NodePtr& n : node->control_deps) copy->control_deps.push_back((*this)[n]);
    return copy;
  }

  // The first node that makes the same call, or this one.
  NodePtr Merge(const NodePtr& node) {
    const bool reads_mutated = !mutated_.empty() && std::any_of(
        node->inputs.begin(), node->inputs.end(),
        [this](const NodeEntry& e) { return mutated_.contains(Entry(e.node.get(), e.index)); });
    if (reads_mutated || !IsPure(*node)) return node;
    return calls_.try_emplace(CallKey(*node), node).first->second;
  }

  const absl::flat_hash_set<Entry> mutated_;
  absl::flat_hash_map<const Node*, NodePtr> becomes_;
  absl::flat_hash_map<CallKey, NodePtr> calls_;
};

}  // namespace

Graph Simplify(const Graph& graph) {
  const Simplifier simplifier(graph_internal::PostOrder(graph.outputs));
  Graph simplified;
  for (const NodeEntry& e : graph.outputs) simplified.outputs.push_back({simplifier[e.node], e.index});
  return simplified;
}

}  // namespace gluond
