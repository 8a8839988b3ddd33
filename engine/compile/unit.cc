#include "engine/compile/unit.h"

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "engine/core/status_macros.h"

namespace gluond {

absl::Status Unit::Replace(absl::StatusOr<Graph> graph) {
  RETURN_IF_ERROR(graph.status());
  Set(*std::move(graph));
  return absl::OkStatus();
}

void Unit::Set(Graph graph) {
  const auto same = [](const NodeEntry& a, const NodeEntry& b) { return a.node == b.node && a.index == b.index; };
  if (absl::c_equal(graph.outputs, graph_.outputs, same)) return;
  graph_ = std::move(graph);
  order_ = nullptr;
  indexed_ = nullptr;
  inferred_ = nullptr;
  computes_constants_.clear();
}

const NodeOrder& Unit::order() {
  if (order_ == nullptr) order_ = std::make_unique<const NodeOrder>(graph_);
  return *order_;
}

const IndexedGraph& Unit::indexed() {
  if (indexed_ == nullptr) indexed_ = std::make_unique<const IndexedGraph>(order(), options_.num_first);
  return *indexed_;
}

absl::StatusOr<const Inferred*> Unit::inferred() {
  if (inferred_ == nullptr) {
    absl::StatusOr<Inferred> inferred =
        options_.open_shapes ? InferPartially(indexed(), known_) : InferShapeType(indexed(), known_);
    RETURN_IF_ERROR(inferred.status());
    inferred_ = std::make_unique<const Inferred>(*std::move(inferred));
    // Passes may drop the calls that tell the shapes of variables: these stay known.
    for (const uint32_t id : indexed_->variables()) {
      const uint32_t entry = (*indexed_)[id].first_entry;
      known_[(*indexed_)[id].node->name()] = {inferred_->shapes[entry], inferred_->types[entry]};
    }
  }
  return inferred_.get();
}

void Unit::LeadWith(std::vector<NodeEntry> entries) {
  num_constants_ += static_cast<uint32_t>(entries.size());
  Graph graph{std::move(entries)};
  graph.outputs.insert(graph.outputs.end(), graph_.outputs.begin(), graph_.outputs.end());
  Set(std::move(graph));
}

const std::vector<bool>& Unit::computes_constants() {
  if (!computes_constants_.empty()) return computes_constants_;
  const IndexedGraph& graph = indexed();
  const auto outputs = absl::MakeConstSpan(graph.outputs());
  std::vector<bool> makes_constant(graph.num_nodes());
  for (const IndexedGraph::Input& constant : outputs.first(num_constants_)) makes_constant[constant.node] = true;
  computes_constants_.assign(graph.num_nodes(), true);
  const auto need = [&](absl::Span<const IndexedGraph::Input> entries) {
    for (const IndexedGraph::Input& each : entries) computes_constants_[each.node] = makes_constant[each.node];
  };
  need(outputs.subspan(num_constants_));
  for (uint32_t id = graph.num_nodes(); id-- > 0;) {
    if (!computes_constants_[id]) need(graph[id].inputs);
  }
  return computes_constants_;
}

}  // namespace gluond
