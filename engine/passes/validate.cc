#include "engine/passes/validate.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/operator_error.h"
#include "engine/passes/pass_work.h"

namespace gluond {
namespace {

constexpr size_t kMaxNamed = 8;  // Names that a message lists.

// "a, b, c and 5 more".
std::string List(const std::vector<std::string>& names) {
  const size_t named = std::min(names.size(), kMaxNamed);
  std::string text = absl::StrJoin(names.begin(), names.begin() + named, ", ");
  if (names.size() > named) absl::StrAppend(&text, " and ", names.size() - named, " more");
  return text;
}

// `user()` says who reads the entry: a text is made for an error only.
template <class User>
absl::Status CheckEntry(const Node& node, uint32_t index, bool client_graph, const User& user) {
  const uint32_t count = node.num_outputs();
  if (index >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat(user(), " is output ", index, " of ", Describe(node), ", which has ", count, " outputs"));
  }
  if (!client_graph || node.is_variable()) return absl::OkStatus();
  const uint32_t visible = node.facts().num_visible;
  if (index < visible) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(user(), " is output ", index, " of ", Describe(node),
                                                 ", which is hidden; use one of its first ", visible, " outputs"));
}

absl::Status CheckNode(const Node& node, bool client_graph) {
  if (node.is_variable()) {
    if (node.inputs.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(Describe(node), " has inputs; only operators have"));
  }
  const uint32_t expected = node.op()->num_inputs(node.attrs);
  if (expected != kVarg && expected != node.num_inputs()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(node), " has ", node.num_inputs(), " inputs, expected ", expected, " (",
                                                   absl::StrJoin(node.op()->input_names(node.attrs, expected), ", "), ")"));
  }
  for (uint32_t i = 0; i < node.num_inputs(); ++i) {
    const auto user = [&] { return absl::StrCat("input ", i, " of ", Describe(node)); };
    RETURN_IF_ERROR(CheckEntry(*node.inputs[i].node, node.inputs[i].index, client_graph, user));
  }
  return absl::OkStatus();
}

// `last` reads `first`, which needs `last`: names the nodes between them.
absl::Status Cycle(const Node* first, const Node* last) {
  std::vector<std::pair<const Node*, size_t>> path = {{first, 0}};  // A node, and its next input to look at.
  absl::flat_hash_set<const Node*> seen = {first};
  while (path.back().first != last) {
    auto& [node, next] = path.back();
    if (next == node->inputs.size()) {
      path.pop_back();
      continue;
    }
    const Node* const input = node->inputs[next++].node.get();
    if (input != nullptr && seen.insert(input).second) path.emplace_back(input, 0);
  }
  std::vector<std::string> names;
  for (size_t i = path.size(); i-- > 0;) names.push_back(Describe(*path[i].first));
  return absl::InvalidArgumentError(
      absl::StrCat("the graph has a cycle of ", names.size(), " nodes: ", List(names), "; a node cannot need its own result"));
}

absl::Status CheckInputs(const NodeOrder& order, uint32_t number) {
  const absl::Span<const uint32_t> from = order.inputs_of(number);
  const auto none = absl::c_find(from, NodeNumbers::kNone);
  if (none == from.end()) return absl::OkStatus();
  const Node& node = *order.nodes()[number];
  const auto i = static_cast<size_t>(none - from.begin());
  if (node.inputs[i].node != nullptr) return Cycle(node.inputs[i].node.get(), &node);
  return absl::InvalidArgumentError(absl::StrCat("input ", i, " of ", Describe(node), " is missing"));
}

}  // namespace

absl::Status Validate(const Graph& graph, const GraphLimits& limits) { return Validate(NodeOrder(graph), limits); }

absl::Status Validate(const NodeOrder& order, const GraphLimits& limits) {
  if (int64_t{order.size()} > limits.max_nodes) {
    return absl::ResourceExhaustedError(absl::StrCat("the graph has more than ", limits.max_nodes,
                                                     " nodes, the limit on graph nodes; split it, or raise the limit"));
  }
  for (size_t i = 0; i < order.outputs.size(); ++i) {
    if (order.outputs[i].node != NodeNumbers::kNone) continue;
    return absl::InvalidArgumentError(absl::StrCat("output ", i, " of the graph is missing"));
  }
  PassWork work;
  absl::flat_hash_set<absl::string_view> variables, nodes;
  for (uint32_t number = 0; number < order.size(); ++number) {
    const Node& node = *order.nodes()[number];
    RETURN_IF_ERROR(work.Add(1 + node.inputs.size()));
    RETURN_IF_ERROR(CheckInputs(order, number));
    RETURN_IF_ERROR(CheckNode(node, limits.client_graph));
    if (!node.is_variable() && !limits.client_graph) continue;
    if (!(node.is_variable() ? variables : nodes).insert(node.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("there is another ", node.is_variable() ? "variable" : "node",
                                                     " of the name of ", Describe(node), "; rename one of them"));
    }
  }
  for (size_t i = 0; i < order.outputs.size(); ++i) {
    const auto [number, index] = order.outputs[i];
    const auto user = [i] { return absl::StrCat("output ", i, " of the graph"); };
    RETURN_IF_ERROR(CheckEntry(*order.nodes()[number], index, limits.client_graph, user));
  }
  return absl::OkStatus();
}

absl::Status CheckKernels(const NodeOrder& order, DeviceType device) {
  std::map<std::string, std::vector<std::string>> missing;  // Nodes by operator.
  for (const NodePtr& node : order.nodes()) {
    if (node->is_variable() || node->op()->kernel(device) != nullptr) continue;
    missing[node->op()->name()].push_back(absl::StrCat("'", Excerpt(node->name()), "'"));
  }
  if (missing.empty()) return absl::OkStatus();
  const absl::string_view name = device == DeviceType::kCpu ? "CPU" : "GPU";
  return absl::InvalidArgumentError(absl::StrCat("no ", name, " kernel for ",
                                                 absl::StrJoin(missing, "; ",
                                                               [](std::string* out, const auto& entry) {
                                                                 absl::StrAppend(out, entry.first, " (nodes ", List(entry.second),
                                                                                 ")");
                                                               }),
                                                 "; use other operators or another device"));
}

}  // namespace gluond
