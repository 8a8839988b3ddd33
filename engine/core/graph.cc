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

IndexedGraph::IndexedGraph(const Graph& graph, size_t num_first) {
  // Numbers in the order of the walk first: pointers are looked up once, however often the graph is looked at.
  std::vector<NodePtr> found = PostOrder(graph.outputs);
  ids_.reserve(found.size());
  std::vector<uint32_t> first_input(found.size() + 1), inputs, depths(found.size());
  for (uint32_t i = 0; i < found.size(); ++i) {
    for (const NodeEntry& e : found[i]->inputs) {
      const uint32_t from = ids_.at(e.node.get());
      inputs.push_back(from);
      depths[i] = std::max(depths[i], depths[from] + 1);
    }
    first_input[i + 1] = static_cast<uint32_t>(inputs.size());
    ids_[found[i].get()] = i;
  }
  // The outputs with the shortest way to the variables come first. A parameter's gradient thus runs as soon as the gradients
  // that it needs are there, whatever the order in which it is asked for, and these need not be kept.
  std::vector<uint32_t> roots;
  for (const NodeEntry& e : graph.outputs) roots.push_back(ids_.at(e.node.get()));
  const auto is_nearer = [&](uint32_t a, uint32_t b) { return depths[a] < depths[b]; };
  const auto rest = roots.begin() + static_cast<std::ptrdiff_t>(num_first);
  std::stable_sort(roots.begin(), rest, is_nearer);
  std::stable_sort(rest, roots.end(), is_nearer);
  constexpr uint32_t kUnseen = static_cast<uint32_t>(-1), kSeen = kUnseen - 1;
  std::vector<uint32_t> becomes(found.size(), kUnseen);
  nodes_.reserve(found.size());
  const auto add = [&](uint32_t i) {
    const uint32_t id = becomes[i] = num_nodes();
    IndexedNode& indexed = nodes_.emplace_back();
    indexed.node = std::move(found[i]);
    indexed.inputs.reserve(indexed.node->inputs.size());
    for (uint32_t k = first_input[i]; k < first_input[i + 1]; ++k) {
      const uint32_t from = becomes[inputs[k]], index = indexed.node->inputs[k - first_input[i]].index;
      indexed.inputs.push_back({from, index, nodes_[from].first_entry + index});
    }
    indexed.first_entry = num_entries_;
    num_entries_ += indexed.node->num_outputs();
    if (indexed.node->is_variable()) variables_.push_back(id);
  };
  std::vector<std::pair<uint32_t, uint32_t>> stack;  // A node, and the place of its next input in `inputs`.
  const auto enter = [&](uint32_t i) {
    if (becomes[i] == kUnseen) becomes[i] = kSeen, stack.emplace_back(i, first_input[i]);
  };
  for (const uint32_t root : roots) {
    enter(root);
    while (!stack.empty()) {
      const auto [i, next] = stack.back();
      if (next < first_input[i + 1]) {
        ++stack.back().second;
        enter(inputs[next]);
      } else {
        add(i);
        stack.pop_back();
      }
    }
  }
  for (auto& [node, id] : ids_) id = becomes[id];
  for (const NodeEntry& e : graph.outputs) {
    const uint32_t from = ids_.at(e.node.get());
    outputs_.push_back({from, e.index, nodes_[from].first_entry + e.index});
  }
}

}  // namespace gluond
