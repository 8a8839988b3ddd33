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
  NodeAttrs attrs;  // attrs.op is nullptr for a variable; attrs.name is the node's name.
  std::vector<NodeEntry> inputs;

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

// The nodes that the outputs need, inputs first. The walk does not enter a node for which `skip` is true.
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
  explicit IndexedGraph(const Graph& graph, size_t num_first = 0);

  struct Input {
    uint32_t node;
    uint32_t index;
    uint32_t entry;
  };
  struct IndexedNode {
    NodePtr node;
    std::vector<Input> inputs;
    uint32_t first_entry;  // Output i is entry first_entry + i.
  };

  uint32_t num_nodes() const { return static_cast<uint32_t>(nodes_.size()); }
  uint32_t num_entries() const { return num_entries_; }
  const IndexedNode& operator[](uint32_t node) const { return nodes_[node]; }
  const std::vector<IndexedNode>& nodes() const { return nodes_; }
  const std::vector<uint32_t>& variables() const { return variables_; }  // Node ids, in topological order.
  const std::vector<Input>& outputs() const { return outputs_; }
  uint32_t id(const Node* node) const { return ids_.at(node); }
  uint32_t entry(uint32_t node, uint32_t index) const { return nodes_[node].first_entry + index; }
  uint32_t entry(const NodeEntry& e) const { return entry(id(e.node.get()), e.index); }

 private:
  std::vector<IndexedNode> nodes_;
  std::vector<uint32_t> variables_;
  std::vector<Input> outputs_;
  absl::flat_hash_map<const Node*, uint32_t> ids_;
  uint32_t num_entries_ = 0;
};

}  // namespace gluond

#endif  // ENGINE_CORE_GRAPH_H_
