// NodeSpec: a graph as a list of calls by name, as clients send it and checkpoints keep it (MXNet's symbol.json).

#ifndef ENGINE_NN_NODE_SPEC_H_
#define ENGINE_NN_NODE_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/op.h"
#include "engine/nn/definition.h"

namespace gluond {

struct EntrySpec {
  std::string node;
  uint32_t index = 0;
};

struct NodeSpec {
  std::string op;    // Empty, or MXNet's "null": a variable.
  std::string name;  // Unique.
  std::vector<EntrySpec> inputs = {};
  AttrDict attrs = {};  // A variable's: __shape__, __dtype__, __init__, __lr_mult__, __wd_mult__.
};

// INVALID_ARGUMENT: this cannot be a node's name.
absl::Status CheckNodeName(absl::string_view name);

// The operator that a client names. NOT_FOUND: none. INVALID_ARGUMENT: a gradient's operator, which relies on a forward
// pass's shapes and does not check them.
absl::StatusOr<const Op*> OfferedOp(absl::string_view name);

// The model whose variables are `inputs` and, all others, parameters. Nodes may come in any order. As in MXNet,
// inputs that a call leaves out become variables "<node>_<input>" ("fc1_weight"); `parameters` adds known facts of
// some by name. If `outputs` is empty, every unused output of a node is an output. An output is named like its node.
// INVALID_ARGUMENT: a cycle, a name twice, an unknown node, an index out of range, wrong attributes or counts; the
// message names the node. NOT_FOUND: an unknown operator. RESOURCE_EXHAUSTED: over `max_nodes`. CANCELLED or
// DEADLINE_EXCEEDED: nobody waits for the model any more (interruption.h).
absl::StatusOr<ModelDefinition> ExpandNodes(const std::vector<NodeSpec>& nodes, std::vector<ModelInput> inputs,
                                            const std::vector<EntrySpec>& outputs, const std::vector<Parameter>& parameters = {},
                                            int64_t max_nodes = 1 << 20);

// The nodes of a graph in topological order; entries refer to them by name.
std::vector<NodeSpec> ListNodes(absl::Span<const NodeEntry> outputs);

}  // namespace gluond

#endif  // ENGINE_NN_NODE_SPEC_H_
