// The computation graph in NNVM's words: a Node is one call of an operator (or a variable), and a NodeEntry is
// one of the outputs of a node. A Graph is the entries that somebody wants.
//
//   NodeEntry x = MakeVariable("x");
//   NodeEntry y = MakeNode("sigmoid", "y", {x});
//   Graph graph{{x * y}};
//
// Nodes are immutable once others refer to them, and may be shared by many graphs and threads. Chains may be
// 100,000 nodes long: nothing here recurses, the destructor included.

#ifndef ENGINE_CORE_GRAPH_H_
#define ENGINE_CORE_GRAPH_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/node_attrs.h"

namespace gluond {

struct Node;
using NodePtr = std::shared_ptr<Node>;

struct NodeEntry {
  NodePtr node;  // nullptr in a list of gradients: no gradient flows there.
  uint32_t index = 0;

  explicit operator bool() const { return node != nullptr; }
};

struct Node {
  std::vector<NodeEntry> inputs;
  NodeAttrs attrs;  // attrs.op is nullptr for a variable; attrs.name is the node's name.

  ~Node();

  const Op* op() const { return attrs.op; }
  const std::string& name() const { return attrs.name; }
  bool is_variable() const { return attrs.op == nullptr; }
  template <class P>
  const P& param() const {
    return attrs.param<P>();
  }
  uint32_t num_inputs() const { return static_cast<uint32_t>(inputs.size()); }
  const OpFacts& facts() const;
  uint32_t num_outputs() const;  // 1 for a variable.
};

struct Graph {
  std::vector<NodeEntry> outputs;
};

// A variable; `dict` may carry "__shape__", "__dtype__", "__init__" and the like.
NodeEntry MakeVariable(std::string name, AttrDict dict = {});

// Output 0 of a call of the operator `op`. The status says which attribute or how many inputs are wrong.
absl::StatusOr<NodePtr> TryMakeNode(absl::string_view op, std::string name, std::vector<NodeEntry> inputs, AttrDict dict = {});

// The same for calls that our own code writes, gradients above all: the process ends if they are wrong.
NodeEntry MakeNode(absl::string_view op, std::string name, std::vector<NodeEntry> inputs, AttrDict dict = {});

// Elementwise arithmetic on entries of one shape, and with a scalar: gradients are written in it.
NodeEntry operator+(const NodeEntry& a, const NodeEntry& b);
NodeEntry operator-(const NodeEntry& a, const NodeEntry& b);
NodeEntry operator*(const NodeEntry& a, const NodeEntry& b);
NodeEntry operator/(const NodeEntry& a, const NodeEntry& b);
NodeEntry operator+(const NodeEntry& a, double b);
NodeEntry operator-(double a, const NodeEntry& b);
NodeEntry operator*(const NodeEntry& a, double b);
NodeEntry operator*(double a, const NodeEntry& b);
NodeEntry operator/(const NodeEntry& a, double b);
NodeEntry operator-(const NodeEntry& a);

// Numbers of nodes, by address. Nodes that were made one after the other lie near each other in memory, and so do their numbers
// here. A walk along the graph thus finds most numbers in the processor's cache; a table hashed by address scatters them.
class NodeNumbers {
 public:
  static constexpr uint32_t kNone = static_cast<uint32_t>(-1);

  // The node's number, to be read or set: kNone at first. Valid until the next call.
  uint32_t& operator[](const Node* node);
  // kNone: the node has none.
  uint32_t at(const Node* node) const;
  bool Has(const Node* node) const { return at(node) != kNone; }

 private:
  // No two nodes begin in the same grain.
  static constexpr uintptr_t kGrain = 64, kGrainsOfPage = 64;
  static_assert(sizeof(Node) >= kGrain);

  absl::flat_hash_map<uintptr_t, std::array<uint32_t, kGrainsOfPage>> pages_;
};

// The nodes that some entries need, inputs first. A node's number is its place: whoever walks the graph keeps what is known of
// nodes in vectors.
struct NodeOrder {
  struct Output {
    uint32_t node;  // kNone: `skip` is true for it, or the entry has none, or it closes a cycle, as Validate tells.
    uint32_t index;
  };

  NodeOrder(const Graph& graph);  // NOLINT: passes take a graph, too.
  // The walk does not enter a node for which `skip` is true.
  NodeOrder(absl::Span<const NodeEntry> outputs, absl::FunctionRef<bool(const Node*)> skip);

  const std::vector<NodePtr>& nodes() const { return *shared_nodes; }
  uint32_t size() const { return static_cast<uint32_t>(nodes().size()); }
  // The numbers of a node's inputs, as in `outputs`.
  absl::Span<const uint32_t> inputs_of(uint32_t node) const {
    return absl::MakeConstSpan(inputs).subspan(first_input[node], first_input[node + 1] - first_input[node]);
  }

  // The list is shared: to count each node's owners anew would be to write to all of the graph's memory.
  std::shared_ptr<std::vector<NodePtr>> shared_nodes = std::make_shared<std::vector<NodePtr>>();
  std::vector<Output> outputs;
  std::vector<uint32_t> first_input = {0};  // By node: where in `inputs` its own begin.
  std::vector<uint32_t> inputs;
  NodeNumbers numbers;
};

std::vector<NodePtr> PostOrder(
    absl::Span<const NodeEntry> outputs, absl::FunctionRef<bool(const Node*)> skip = [](const Node*) { return false; });

template <class Visit>
void PostOrderVisit(absl::Span<const NodeEntry> outputs, Visit visit) {
  for (const NodePtr& node : PostOrder(outputs)) visit(node);
}

// The graph as arrays, for passes: nodes in topological order (the one in which they run), entries numbered. Keeps the
// nodes alive. Requires: no cycle and no missing entry, as Validate checks.
class IndexedGraph {
 public:
  // The nodes that the first `num_first` outputs need come before all others.
  explicit IndexedGraph(const NodeOrder& order, size_t num_first = 0);
  explicit IndexedGraph(const Graph& graph, size_t num_first = 0) : IndexedGraph(NodeOrder(graph), num_first) {}
  IndexedGraph(IndexedGraph&&) = default;

  struct Input {
    uint32_t node;
    uint32_t index;
    uint32_t entry;
  };
  struct IndexedNode {
    const NodePtr& node;
    absl::Span<const Input> inputs;
    uint32_t first_entry;  // Output i is entry first_entry + i.
  };

  uint32_t num_nodes() const { return static_cast<uint32_t>(nodes_.size()); }
  uint32_t num_entries() const { return num_entries_; }
  uint32_t num_inputs() const { return static_cast<uint32_t>(inputs_.size()); }  // All nodes' inputs together.
  const IndexedNode& operator[](uint32_t node) const { return nodes_[node]; }
  const std::vector<IndexedNode>& nodes() const { return nodes_; }
  const std::vector<uint32_t>& variables() const { return variables_; }  // Node ids, in topological order.
  const std::vector<Input>& outputs() const { return outputs_; }
  // The same nodes, as the NodeOrder numbers them.
  const std::shared_ptr<const std::vector<NodePtr>>& shared_nodes() const { return shared_nodes_; }
  uint32_t id(const Node* node) const { return ids_.at(node); }  // Requires: the graph has it.
  uint32_t entry(uint32_t node, uint32_t index) const { return nodes_[node].first_entry + index; }
  // The entry after the node's last one.
  uint32_t end_of_entries(uint32_t node) const { return node + 1 < num_nodes() ? nodes_[node + 1].first_entry : num_entries_; }
  uint32_t entry(const NodeEntry& e) const { return entry(id(e.node.get()), e.index); }

 private:
  Input InputFrom(uint32_t node, uint32_t index) const { return {node, index, entry(node, index)}; }

  std::shared_ptr<const std::vector<NodePtr>> shared_nodes_;
  std::vector<IndexedNode> nodes_;
  std::vector<Input> inputs_;  // Nodes' inputs, one node after the other.
  std::vector<uint32_t> variables_;
  std::vector<Input> outputs_;
  NodeNumbers ids_;
  uint32_t num_entries_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_CORE_GRAPH_H_
