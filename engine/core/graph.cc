#include "engine/core/graph.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/core/node_memory.h"
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
  auto node = NewNode();
  node->attrs.name = std::move(name);
  node->attrs.dict = std::move(dict);
  return {std::move(node), 0};
}

absl::StatusOr<NodePtr> TryMakeNode(absl::string_view op_name, std::string name, std::vector<NodeEntry> inputs, AttrDict dict) {
  ASSIGN_OR_RETURN(const Op* op, Op::Get(op_name));
  auto node = NewNode();
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

uint32_t& NodeNumbers::operator[](const Node* node) {
  const uintptr_t grain = reinterpret_cast<uintptr_t>(node) / kGrain;
  const auto [page, is_new] = pages_.try_emplace(grain / kGrainsOfPage);
  if (is_new) page->second.fill(kNone);
  return page->second[grain % kGrainsOfPage];
}

uint32_t NodeNumbers::at(const Node* node) const {
  const uintptr_t grain = reinterpret_cast<uintptr_t>(node) / kGrain;
  const auto page = pages_.find(grain / kGrainsOfPage);
  return page == pages_.end() ? kNone : page->second[grain % kGrainsOfPage];
}

NodeOrder::NodeOrder(const Graph& graph) : NodeOrder(graph.outputs, [](const Node*) { return false; }) {}

NodeOrder::NodeOrder(absl::Span<const NodeEntry> entries, absl::FunctionRef<bool(const Node*)> skip) {
  constexpr uint32_t kOnPath = NodeNumbers::kNone - 1;
  struct Frame {
    const NodePtr* node;
    size_t next;   // The next input to look at.
    size_t first;  // Where in `found` the numbers of its inputs begin.
  };
  std::vector<Frame> path;
  std::vector<uint32_t> found;
  std::vector<NodePtr>& nodes = *shared_nodes;
  const auto meet = [&](const NodePtr& node) {
    if (node == nullptr || skip(node.get())) return found.push_back(NodeNumbers::kNone);
    uint32_t& number = numbers[node.get()];
    if (number != NodeNumbers::kNone) return found.push_back(number == kOnPath ? NodeNumbers::kNone : number);
    number = kOnPath;
    path.push_back({&node, 0, found.size()});
  };
  for (const NodeEntry& entry : entries) {
    meet(entry.node);
    while (!path.empty()) {
      Frame& top = path.back();
      const NodePtr& node = *top.node;
      if (top.next < node->inputs.size()) {
        meet(node->inputs[top.next++].node);
        continue;
      }
      const auto first = found.begin() + static_cast<std::ptrdiff_t>(top.first);
      inputs.insert(inputs.end(), first, found.end());
      first_input.push_back(static_cast<uint32_t>(inputs.size()));
      found.erase(first, found.end());
      found.push_back(numbers[node.get()] = size());
      nodes.push_back(node);
      path.pop_back();
    }
    outputs.push_back({found.back(), entry.index});
    found.pop_back();
  }
}

std::vector<NodePtr> PostOrder(absl::Span<const NodeEntry> outputs, absl::FunctionRef<bool(const Node*)> skip) {
  return std::move(*NodeOrder(outputs, skip).shared_nodes);
}

IndexedGraph::IndexedGraph(const NodeOrder& order, size_t num_first) : shared_nodes_(order.shared_nodes) {
  std::vector<uint32_t> depths(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    for (const uint32_t from : order.inputs_of(i)) depths[i] = std::max(depths[i], depths[from] + 1);
  }
  // The outputs with the shortest way to the variables come first. A parameter's gradient thus runs as soon as the gradients
  // that it needs are there, whatever the order in which it is asked for, and these need not be kept.
  std::vector<uint32_t> roots;
  for (const NodeOrder::Output& output : order.outputs) roots.push_back(output.node);
  const auto is_nearer = [&](uint32_t a, uint32_t b) { return depths[a] < depths[b]; };
  const auto rest = roots.begin() + static_cast<std::ptrdiff_t>(num_first);
  std::stable_sort(roots.begin(), rest, is_nearer);
  std::stable_sort(rest, roots.end(), is_nearer);
  constexpr uint32_t kUnseen = static_cast<uint32_t>(-1), kSeen = kUnseen - 1;
  std::vector<uint32_t> becomes(order.size(), kUnseen);
  nodes_.reserve(order.size());
  inputs_.reserve(order.inputs.size());  // Nodes point into it.
  const auto add = [&](uint32_t i) {
    const uint32_t id = becomes[i] = num_nodes();
    const NodePtr& node = order.nodes()[i];
    ids_[node.get()] = id;
    const absl::Span<const uint32_t> from = order.inputs_of(i);
    for (size_t k = 0; k < from.size(); ++k) inputs_.push_back(InputFrom(becomes[from[k]], node->inputs[k].index));
    nodes_.push_back({node, absl::MakeConstSpan(inputs_).last(from.size()), num_entries_});
    num_entries_ += node->num_outputs();
    if (node->is_variable()) variables_.push_back(id);
  };
  std::vector<std::pair<uint32_t, uint32_t>> stack;  // A node, and the place of its next input in order.inputs.
  const auto enter = [&](uint32_t i) {
    if (becomes[i] == kUnseen) becomes[i] = kSeen, stack.emplace_back(i, order.first_input[i]);
  };
  for (const uint32_t root : roots) {
    enter(root);
    while (!stack.empty()) {
      const auto [i, next] = stack.back();
      if (next < order.first_input[i + 1]) {
        ++stack.back().second;
        enter(order.inputs[next]);
      } else {
        add(i);
        stack.pop_back();
      }
    }
  }
  for (const NodeOrder::Output& output : order.outputs) outputs_.push_back(InputFrom(becomes[output.node], output.index));
}

}  // namespace gluond
