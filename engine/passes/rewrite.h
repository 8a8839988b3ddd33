// Rewriting: passes change no node, since graphs and threads share nodes. A pass copies the nodes that it changes, and
// those that read them.

#ifndef ENGINE_PASSES_REWRITE_H_
#define ENGINE_PASSES_REWRITE_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"

namespace gluond {

// The node with other inputs, one for each of its own: a copy, or the node itself where all are the same.
NodePtr WithInputs(const NodePtr& node, std::vector<NodeEntry> inputs);

// The graph in which the result of `change` stands for each node. Nodes come inputs first; `change` gets the old node, and
// that node with its new inputs, which stands for the old one where `change` returns null. Both references stay valid until
// the end. CANCELLED or DEADLINE_EXCEEDED: see pass_work.h.
absl::StatusOr<Graph> Rewrite(const NodeOrder& order,
                              absl::FunctionRef<NodePtr(const NodePtr& old, const NodePtr& renewed)> change);

}  // namespace gluond

#endif  // ENGINE_PASSES_REWRITE_H_
