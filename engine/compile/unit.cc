#include "engine/compile/unit.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "engine/compile/host_charge.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

// A walk's bytes for each input that it meets, and the inputs that it meets between two charges.
constexpr int64_t kWalkBytes = 128, kWalkStep = 1024;

// The most that passes, the program and an executor's own tables take at one time, for each of a graph's pieces, and 1.3 to 1.8
// times what tests/engine/runtime/compile_memory_test.cc finds. A variable is a node, too.
constexpr int64_t kNodeBytes = 384, kInputBytes = 192, kEntryBytes = 256, kOutputBytes = 640, kVariableBytes = 512;
int64_t MostBytes(const NodeOrder& order) {
  const auto inputs = static_cast<int64_t>(order.inputs.size()), outputs = static_cast<int64_t>(order.outputs.size());
  int64_t bytes = kInputBytes * inputs + kOutputBytes * outputs;
  for (const NodePtr& node : order.nodes()) {
    bytes += kNodeBytes + kEntryBytes * node->num_outputs();
    if (node->is_variable()) bytes += kVariableBytes + 4 * static_cast<int64_t>(node->name().size());
  }
  return bytes;
}

// A node that a pass has made. A copy with other inputs shares its facts.
int64_t MadeBytes(const Node& node) {
  constexpr int64_t kBytes = 256, kFactsBytes = 320, kAttributeBytes = 128;
  const auto attributes = static_cast<int64_t>(node.attrs.dict.size()), name = static_cast<int64_t>(node.name().size());
  const int64_t facts = node.attrs.facts.use_count() == 1 ? kFactsBytes : 0;
  return kBytes + facts + name + kAttributeBytes * attributes + static_cast<int64_t>(node.inputs.size() * sizeof(NodeEntry));
}

absl::Status AnnotateMemory(const absl::Status& status) { return Annotate(status, "compiling a graph"); }

}  // namespace

Unit::Unit(Graph graph, Signatures known, UnitOptions options)
    : graph_(std::move(graph)),
      known_(std::move(known)),
      options_(std::move(options)),
      charge_(std::make_shared<HostCharge>(options_.payer)) {}

absl::Status Unit::Pay() {
  if (options_.payer == nullptr || order_ != nullptr) return absl::OkStatus();
  // The walk that finds the nodes takes memory, too: it is paid piece by piece, as it goes.
  absl::Status paid;
  int64_t met = 0;
  const auto stop = [&](const Node*) {
    if (++met % kWalkStep == 0 && paid.ok()) paid = charge_->Set(std::max(charge_->bytes(), met * kWalkBytes));
    return !paid.ok();
  };
  auto order = std::make_unique<const NodeOrder>(graph_.outputs, stop);
  RETURN_IF_ERROR(AnnotateMemory(paid));
  made_bytes_ = 0;
  for (size_t i = 0; given_ != nullptr && i < order->nodes().size(); ++i) {
    if (const Node& node = *order->nodes()[i]; !given_->numbers.Has(&node)) made_bytes_ += MadeBytes(node);
  }
  order_ = std::move(order);
  return AnnotateMemory(charge_->Set(std::max(charge_->bytes(), MostBytes(*order_) + made_bytes())));
}

absl::Status Unit::Replace(absl::StatusOr<Graph> graph) {
  RETURN_IF_ERROR(graph.status());
  Set(*std::move(graph));
  return Pay();
}

void Unit::Set(Graph graph) {
  const auto same = [](const NodeEntry& a, const NodeEntry& b) { return a.node == b.node && a.index == b.index; };
  if (absl::c_equal(graph.outputs, graph_.outputs, same)) return;
  // Passes may drop the calls that tell the shapes of variables: these stay known.
  for (size_t i = 0; inferred_ != nullptr && i < indexed_->variables().size(); ++i) {
    const IndexedGraph::IndexedNode& variable = (*indexed_)[indexed_->variables()[i]];
    known_[variable.node->name()] = {inferred_->shapes[variable.first_entry], inferred_->types[variable.first_entry]};
  }
  graph_ = std::move(graph);
  if (options_.payer != nullptr && given_ == nullptr) given_ = std::move(order_);
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
  }
  return inferred_.get();
}

absl::Status Unit::LeadWith(std::vector<NodeEntry> entries) {
  num_constants_ += static_cast<uint32_t>(entries.size());
  Graph graph{std::move(entries)};
  graph.outputs.insert(graph.outputs.end(), graph_.outputs.begin(), graph_.outputs.end());
  Set(std::move(graph));
  return Pay();
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
