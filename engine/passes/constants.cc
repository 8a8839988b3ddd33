#include "engine/passes/constants.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "engine/core/affine.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/passes/in_place.h"
#include "engine/passes/pass_work.h"

namespace gluond {
namespace {

constexpr int64_t kFewBytes = 1 << 20;

using Names = absl::flat_hash_set<std::string>;

// By node: whether its outputs follow from constants alone.
std::vector<bool> FollowFromConstants(const IndexedGraph& graph, const Names& constants, DeviceType device) {
  std::vector<bool> written(graph.num_entries());
  for (const IndexedGraph::IndexedNode& indexed : graph.nodes()) {
    for (const uint32_t i : indexed.node->facts().mutated) {
      if (i < indexed.inputs.size()) written[indexed.inputs[i].entry] = true;
    }
  }
  std::vector<bool> constant;
  constant.reserve(graph.num_nodes());
  for (const IndexedGraph::IndexedNode& indexed : graph.nodes()) {
    const Node& node = *indexed.node;
    if (node.is_variable()) {
      constant.push_back(constants.contains(node.name()));
      continue;
    }
    const OpFacts& facts = node.facts();
    bool is_written = false;
    for (uint32_t i = 0; i < facts.num_outputs; ++i) is_written = is_written || written[indexed.first_entry + i];
    constant.push_back(!is_written && facts.pure && !facts.random && !facts.async && facts.mutated.empty() &&
                       facts.kernel(device) != nullptr &&
                       absl::c_all_of(indexed.inputs, [&](const IndexedGraph::Input& input) { return constant[input.node]; }));
  }
  return constant;
}

}  // namespace

Names UnwrittenBy(const Graph& graph, Names parameters) {
  PostOrderVisit(graph.outputs, [&parameters](const NodePtr& node) {
    if (node->is_variable() || AffineOf(*node) != nullptr) return;
    for (const uint32_t i : node->facts().mutated) parameters.erase(node->inputs[i].node->name());
  });
  return parameters;
}

absl::StatusOr<std::vector<NodeEntry>> ConstantEntries(const IndexedGraph& graph, const Inferred& inferred, const Names& constants,
                                                       DeviceType device) {
  const std::vector<bool> constant = FollowFromConstants(graph, constants, device);
  // By node: the entry that has the bytes of the node's first output. A shape's change costs nothing in each run, and a copy of
  // the bytes does.
  std::vector<IndexedGraph::Input> same_bytes;
  std::vector<NodeEntry> entries;
  std::vector<bool> found(graph.num_entries());
  int64_t left = kFewBytes;
  bool known = true;
  const auto bytes_of = [&](uint32_t entry) {
    const DType dtype = inferred.types[entry];
    const absl::StatusOr<int64_t> bytes = CheckedBytes(inferred.shapes[entry], dtype == DType::kUnknown ? 1 : SizeOf(dtype));
    known = known && bytes.ok() && dtype != DType::kUnknown;
    return bytes.value_or(0);
  };
  const auto add = [&](IndexedGraph::Input read) {
    if (read.index == 0) read = same_bytes[read.node];
    const NodePtr& node = graph[read.node].node;
    if (!constant[read.node] || node->is_variable() || found[read.entry]) return;
    found[read.entry] = true;
    left -= bytes_of(read.entry);
    entries.push_back({node, read.index});
  };
  PassWork work;
  for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
    const IndexedGraph::IndexedNode& indexed = graph[id];
    RETURN_IF_ERROR(work.Add(1 + indexed.inputs.size()));
    const auto any = [](uint32_t) { return true; };
    const std::optional<uint32_t> same = constant[id] ? InputOfIdentity(indexed.node->facts(), any) : std::nullopt;
    IndexedGraph::Input from = {id, 0, indexed.first_entry};
    if (same.has_value()) from = indexed.inputs[*same];
    same_bytes.push_back(same.has_value() && from.index == 0 ? same_bytes[from.node] : from);
    if (constant[id]) {
      if (indexed.node->is_variable()) left += 2 * bytes_of(indexed.first_entry);
      continue;
    }
    absl::c_for_each(indexed.inputs, add);
  }
  absl::c_for_each(graph.outputs(), add);
  if (entries.empty() || (known && left >= 0)) return entries;
  return absl::ResourceExhaustedError(
      "values that follow from parameters alone would take much more than these, or their sizes are open");
}

}  // namespace gluond
