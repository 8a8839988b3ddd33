#include "engine/passes/fold_affine.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "engine/core/affine.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/passes/readers.h"
#include "engine/passes/rewrite.h"

namespace gluond {
namespace {

class Folder {
 public:
  Folder(const IndexedGraph& graph, const Inferred& inferred, const absl::flat_hash_set<std::string>& constants, bool narrow)
      : graph_(graph), inferred_(inferred), constants_(constants), narrow_(narrow), readers_(ReadersOf(graph)) {}

  // The call that computes what `node`, the graph's node `id` with new inputs, does of the call before it. Null: both stay.
  NodePtr Absorbed(uint32_t id, const Node& node) {
    const auto* const affine_of = AffineOf(node);
    if (affine_of == nullptr) return nullptr;
    for (uint32_t i = 1; i < node.num_outputs(); ++i) {
      if (readers_[graph_.entry(id, i)] > 0) return nullptr;
    }
    const uint32_t before = graph_[id].inputs[0].entry;
    const Shape& shape = inferred_.shapes[before];
    const DType dtype = inferred_.types[before];
    if (!shape.rank_known() || dtype == DType::kUnknown) return nullptr;
    if (!narrow_ && SizeOf(dtype) < SizeOf(DType::kFloat32)) return nullptr;
    Affine affine = (*affine_of)(node, dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
    if (affine.x.node != node.inputs[0].node || affine.x.index != 0 || readers_[before] != 1) return nullptr;
    const Node& producer = *affine.x.node;
    if (producer.is_variable()) return nullptr;
    static const OpMap<FAbsorbAffine> absorb_of("FAbsorbAffine");
    const auto* const absorb = absorb_of[producer.op()];
    if (absorb == nullptr) return nullptr;
    if (affine.axis < 0) affine.axis += shape.ndim();
    std::vector<NodeEntry> fixed(producer.inputs.begin() + 1, producer.inputs.end());
    fixed.push_back(affine.scale);
    fixed.push_back(affine.shift);
    return AreConstant(fixed) ? (*absorb)(producer, affine, shape.ndim(), dtype) : nullptr;
  }

 private:
  // Each node is looked at once, however many scales depend on it.
  bool AreConstant(absl::Span<const NodeEntry> entries) {
    for (NodePtr& node : PostOrder(entries, [this](const Node* node) { return is_constant_.contains(node); })) {
      const auto constant = [this](const NodeEntry& e) { return is_constant_.at(e.node.get()); };
      is_constant_[node.get()] =
          node->is_variable() ? constants_.contains(node->name()) : node->facts().pure && absl::c_all_of(node->inputs, constant);
      seen_.push_back(std::move(node));
    }
    return absl::c_all_of(entries, [this](const NodeEntry& e) { return is_constant_.at(e.node.get()); });
  }

  const IndexedGraph& graph_;
  const Inferred& inferred_;
  const absl::flat_hash_set<std::string>& constants_;
  const bool narrow_;
  const std::vector<int> readers_;
  absl::flat_hash_map<const Node*, bool> is_constant_;
  std::vector<NodePtr> seen_;  // Keeps those nodes alive.
};

}  // namespace

absl::StatusOr<Graph> FoldAffine(const NodeOrder& order, const IndexedGraph& indexed, const Inferred& inferred,
                                 const absl::flat_hash_set<std::string>& constants, bool narrow) {
  Folder folder(indexed, inferred, constants, narrow);
  return Rewrite(order, [&](const NodePtr& old, const NodePtr& node) {
    return node->is_variable() ? nullptr : folder.Absorbed(indexed.id(old.get()), *node);
  });
}

}  // namespace gluond
