#include "engine/passes/fold_affine.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/affine.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/passes/readers.h"

namespace gluond {
namespace {

class Folder {
 public:
  Folder(const IndexedGraph& graph, const Inferred& inferred, const absl::flat_hash_set<std::string>& constants)
      : graph_(graph), inferred_(inferred), constants_(constants), readers_(ReadersOf(graph)) {
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) becomes_.push_back(Folded(id));
  }

  NodeEntry operator[](const IndexedGraph::Input& entry) const { return {becomes_[entry.node], entry.index}; }

 private:
  NodePtr Folded(uint32_t id) {
    const NodePtr node = Renewed(graph_[id]);
    if (node->is_variable()) return node;
    NodePtr absorbed = Absorbed(id, *node);
    return absorbed == nullptr ? node : absorbed;
  }

  // The node, or a copy of it where something that it reads has become another node.
  NodePtr Renewed(const IndexedGraph::IndexedNode& indexed) const {
    const NodePtr& node = indexed.node;
    const auto same = [this](const IndexedGraph::Input& input) { return becomes_[input.node] == graph_[input.node].node; };
    if (std::all_of(indexed.inputs.begin(), indexed.inputs.end(), same)) return node;
    auto copy = std::make_shared<Node>();
    copy->attrs = node->attrs;
    for (const IndexedGraph::Input& input : indexed.inputs) copy->inputs.push_back((*this)[input]);
    return copy;
  }

  // The call that computes what `node` does of the call before it. Null: both stay.
  NodePtr Absorbed(uint32_t id, const Node& node) const {
    const auto* const affine_of = node.op()->GetAttr<FAffine>("FAffine");
    if (affine_of == nullptr) return nullptr;
    for (uint32_t i = 1; i < node.num_outputs(); ++i) {
      if (readers_[graph_.entry(id, i)] > 0) return nullptr;
    }
    const uint32_t before = graph_[id].inputs[0].entry;
    const Shape& shape = inferred_.shapes[before];
    const DType dtype = inferred_.types[before];
    if (!shape.rank_known() || dtype == DType::kUnknown) return nullptr;
    Affine affine = (*affine_of)(node, dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
    if (affine.x.node != node.inputs[0].node || affine.x.index != 0 || readers_[before] != 1) return nullptr;
    const Node& producer = *affine.x.node;
    if (producer.is_variable()) return nullptr;
    const auto* const absorb = producer.op()->GetAttr<FAbsorbAffine>("FAbsorbAffine");
    if (absorb == nullptr) return nullptr;
    if (affine.axis < 0) affine.axis += shape.ndim();
    std::vector<NodeEntry> fixed(producer.inputs.begin() + 1, producer.inputs.end());
    fixed.push_back(affine.scale);
    fixed.push_back(affine.shift);
    return AreConstant(fixed) ? (*absorb)(producer, affine, shape.ndim(), dtype) : nullptr;
  }

  bool AreConstant(absl::Span<const NodeEntry> entries) const {
    const std::vector<NodePtr> nodes = PostOrder(entries);
    return std::all_of(nodes.begin(), nodes.end(), [this](const NodePtr& node) {
      return node->is_variable() ? constants_.contains(node->name()) : node->facts().pure;
    });
  }

  const IndexedGraph& graph_;
  const Inferred& inferred_;
  const absl::flat_hash_set<std::string>& constants_;
  const std::vector<int> readers_;
  std::vector<NodePtr> becomes_;  // By node.
};

}  // namespace

absl::StatusOr<Graph> FoldAffine(const Graph& graph, const Signatures& known, const absl::flat_hash_set<std::string>& constants) {
  const IndexedGraph indexed(graph);
  ASSIGN_OR_RETURN(const Inferred inferred, InferPartially(indexed, known));
  const Folder folder(indexed, inferred, constants);
  Graph folded;
  for (const IndexedGraph::Input& output : indexed.outputs()) folded.outputs.push_back(folder[output]);
  return folded;
}

}  // namespace gluond
