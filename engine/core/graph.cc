#include "engine/core/graph.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "gluond: a graph made by our own code is wrong: %s\n", status.ToString().c_str());
  std::abort();
}

NodeEntry Scalar(absl::string_view op, const NodeEntry& a, double b) {
  return MakeNode(op, std::string(op), {a}, {{"scalar", param_internal::FormatValue(b)}});
}

}  // namespace

// The default destructor would recurse along the inputs: a long chain would overflow the stack.
Node::~Node() {
  std::vector<NodePtr> orphans;  // A node may be here more than once: it ends with the last.
  const auto take = [&orphans](Node& node) {
    for (NodeEntry& e : node.inputs) orphans.push_back(std::move(e.node));
    node.inputs.clear();
  };
  take(*this);
  while (!orphans.empty()) {
    const NodePtr node = std::move(orphans.back());
    orphans.pop_back();
    if (node.use_count() == 1) take(*node);
  }
}

const OpFacts& Node::facts() const {
  static const OpFacts& of_a_variable = *new OpFacts;
  return is_variable() ? of_a_variable : *attrs.facts;
}

uint32_t Node::num_outputs() const { return facts().num_outputs; }

NodeEntry MakeVariable(std::string name, AttrDict dict) {
  auto node = std::make_shared<Node>();
  node->attrs.name = std::move(name);
  node->attrs.dict = std::move(dict);
  return {std::move(node), 0};
}

absl::StatusOr<NodePtr> TryMakeNode(absl::string_view op_name, std::string name, std::vector<NodeEntry> inputs, AttrDict dict) {
  ASSIGN_OR_RETURN(const Op* op, Op::Get(op_name));
  auto node = std::make_shared<Node>();
  node->attrs.op = op;
  node->attrs.name = std::move(name);
  node->attrs.dict = std::move(dict);
  RETURN_IF_ERROR(op->ParseAttrs(&node->attrs, inputs.size()));
  const uint32_t expected = op->num_inputs(node->attrs);
  if (expected != kVarg && expected != inputs.size()) {
    constexpr uint32_t kMostNamed = 32;
    const std::string names =
        expected > kMostNamed ? "" : absl::StrCat(" (", absl::StrJoin(op->input_names(node->attrs, expected), ", "), ")");
    return absl::InvalidArgumentError(
        absl::StrCat("operator '", op->name(), "' takes ", expected, " inputs", names, ", got ", inputs.size()));
  }
  node->inputs = std::move(inputs);
  return node;
}

NodeEntry MakeNode(absl::string_view op, std::string name, std::vector<NodeEntry> inputs, AttrDict dict) {
  absl::StatusOr<NodePtr> node = TryMakeNode(op, std::move(name), std::move(inputs), std::move(dict));
  if (!node.ok()) Die(node.status());
  return {*std::move(node), 0};
}

NodeEntry operator+(const NodeEntry& a, const NodeEntry& b) { return MakeNode("elemwise_add", "add", {a, b}); }
NodeEntry operator-(const NodeEntry& a, const NodeEntry& b) { return MakeNode("elemwise_sub", "sub", {a, b}); }
NodeEntry operator*(const NodeEntry& a, const NodeEntry& b) { return MakeNode("elemwise_mul", "mul", {a, b}); }
NodeEntry operator/(const NodeEntry& a, const NodeEntry& b) { return MakeNode("elemwise_div", "div", {a, b}); }
NodeEntry operator+(const NodeEntry& a, double b) { return Scalar("_plus_scalar", a, b); }
NodeEntry operator-(double a, const NodeEntry& b) { return Scalar("_rminus_scalar", b, a); }
NodeEntry operator*(const NodeEntry& a, double b) { return Scalar("_mul_scalar", a, b); }
NodeEntry operator*(double a, const NodeEntry& b) { return Scalar("_mul_scalar", b, a); }
NodeEntry operator/(const NodeEntry& a, double b) { return Scalar("_div_scalar", a, b); }
NodeEntry operator-(const NodeEntry& a) { return MakeNode("negative", "negative", {a}); }

std::vector<NodePtr> PostOrder(absl::Span<const NodeEntry> outputs, absl::FunctionRef<bool(const Node*)> skip) {
  struct Frame {
    NodePtr node;
    size_t next = 0;  // The next input to look at.
  };
  std::vector<NodePtr> order;
  absl::flat_hash_set<const Node*> seen;
  std::vector<Frame> stack;
  const auto push = [&](const NodePtr& node) {
    if (node != nullptr && !skip(node.get()) && seen.insert(node.get()).second) stack.push_back({node});
  };
  for (const NodeEntry& output : outputs) {
    push(output.node);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.node->inputs.size()) {
        push(top.node->inputs[top.next++].node);
      } else {
        order.push_back(std::move(top.node));
        stack.pop_back();
      }
    }
  }
  return order;
}

namespace {

// The outputs with the shortest way to the variables first. A parameter's gradient thus runs as soon as the gradients
// that it needs are there, whatever the order in which it is asked for, and these need not be kept.
std::vector<NodeEntry> NearestFirst(const std::vector<NodeEntry>& outputs) {
  absl::flat_hash_map<const Node*, uint32_t> depths;
  PostOrderVisit(outputs, [&](const NodePtr& node) {
    uint32_t depth = 0;
    for (const NodeEntry& e : node->inputs) depth = std::max(depth, depths.at(e.node.get()) + 1);
    depths[node.get()] = depth;
  });
  std::vector<NodeEntry> sorted = outputs;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const NodeEntry& a, const NodeEntry& b) { return depths.at(a.node.get()) < depths.at(b.node.get()); });
  return sorted;
}

}  // namespace

IndexedGraph::IndexedGraph(const Graph& graph) {
  PostOrderVisit(NearestFirst(graph.outputs), [this](const NodePtr& node) {
    const uint32_t id = num_nodes();
    ids_[node.get()] = id;
    IndexedNode& indexed = nodes_.emplace_back();
    indexed.node = node;
    for (const NodeEntry& e : node->inputs) {
      const uint32_t from = ids_.at(e.node.get());
      indexed.inputs.push_back({from, e.index, nodes_[from].first_entry + e.index});
    }
    indexed.first_entry = num_entries_;
    num_entries_ += node->num_outputs();
    if (node->is_variable()) variables_.push_back(id);
  });
  for (const NodeEntry& e : graph.outputs) {
    const uint32_t from = ids_.at(e.node.get());
    outputs_.push_back({from, e.index, nodes_[from].first_entry + e.index});
  }
}

}  // namespace gluond
