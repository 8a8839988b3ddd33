#include "engine/passes/validate.h"

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
absl::Status CheckEntry(const NodeEntry& entry, bool client_graph, const User& user) {
  const uint32_t count = entry.node->num_outputs();
  if (entry.index >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat(user(), " is output ", entry.index, " of ", Describe(*entry.node), ", which has ", count, " outputs"));
  }
  if (!client_graph || entry.node->is_variable()) return absl::OkStatus();
  const uint32_t visible = entry.node->facts().num_visible;
  if (entry.index < visible) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(user(), " is output ", entry.index, " of ", Describe(*entry.node),
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
    RETURN_IF_ERROR(CheckEntry(node.inputs[i], client_graph, user));
  }
  return absl::OkStatus();
}

// Depth first, without recursion. A node on the path that is met again closes a cycle.
class Walk {
 public:
  explicit Walk(int64_t max_nodes) : max_nodes_(max_nodes) {}

  absl::Status From(const NodePtr& root) {
    RETURN_IF_ERROR(Enter(root.get()));
    while (!path_.empty()) {
      RETURN_IF_ERROR(work_.Add(1));
      Frame& top = path_.back();
      const Node& node = *top.node;
      const size_t next = top.next++;
      if (next == node.inputs.size()) {
        on_path_[top.node] = false;
        order_.push_back(top.node);
        path_.pop_back();
        continue;
      }
      const Node* input = node.inputs[next].node.get();
      if (input == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("input ", next, " of ", Describe(node), " is missing"));
      }
      RETURN_IF_ERROR(Enter(input));
    }
    return absl::OkStatus();
  }

  // Every node met, after those that it needs.
  const std::vector<const Node*>& order() const { return order_; }

 private:
  struct Frame {
    const Node* node;
    size_t next;
  };

  absl::Status Enter(const Node* node) {
    const auto [it, is_new] = on_path_.try_emplace(node, true);
    if (is_new) {
      path_.push_back({node, 0});
      if (static_cast<int64_t>(on_path_.size()) <= max_nodes_) return absl::OkStatus();
      return absl::ResourceExhaustedError(
          absl::StrCat("the graph has more than ", max_nodes_, " nodes, the limit on graph nodes; split it, or raise the limit"));
    }
    return it->second ? Cycle(node) : absl::OkStatus();
  }

  absl::Status Cycle(const Node* closing) const {
    std::vector<std::string> names;
    for (size_t i = path_.size(); i-- > 0;) {
      names.push_back(Describe(*path_[i].node));
      if (path_[i].node == closing) break;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has a cycle of ", names.size(), " nodes: ", List(names), "; a node cannot need its own result"));
  }

  const int64_t max_nodes_;
  PassWork work_;
  std::vector<Frame> path_;
  absl::flat_hash_map<const Node*, bool> on_path_;  // Every node met; true while it is on the path.
  std::vector<const Node*> order_;
};

}  // namespace

absl::Status Validate(const Graph& graph, const GraphLimits& limits) {
  Walk walk(limits.max_nodes);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (graph.outputs[i].node == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("output ", i, " of the graph is missing"));
    }
    RETURN_IF_ERROR(walk.From(graph.outputs[i].node));
  }
  absl::flat_hash_set<absl::string_view> variables, nodes;
  for (const Node* node : walk.order()) {
    RETURN_IF_ERROR(CheckNode(*node, limits.client_graph));
    if (!node->is_variable() && !limits.client_graph) continue;
    if (!(node->is_variable() ? variables : nodes).insert(node->name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("there is another ", node->is_variable() ? "variable" : "node",
                                                     " of the name of ", Describe(*node), "; rename one of them"));
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    RETURN_IF_ERROR(CheckEntry(graph.outputs[i], limits.client_graph, [i] { return absl::StrCat("output ", i, " of the graph"); }));
  }
  return absl::OkStatus();
}

absl::Status CheckKernels(const Graph& graph, DeviceType device) {
  std::map<std::string, std::vector<std::string>> missing;  // Nodes by operator.
  PostOrderVisit(graph.outputs, [&](const NodePtr& node) {
    if (node->is_variable() || node->op()->kernel(device) != nullptr) return;
    missing[node->op()->name()].push_back(absl::StrCat("'", Excerpt(node->name()), "'"));
  });
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
