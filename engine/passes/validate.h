// Validate checks a graph before any pass looks at it.

#ifndef ENGINE_PASSES_VALIDATE_H_
#define ENGINE_PASSES_VALIDATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/device.h"
#include "engine/core/graph.h"

namespace gluond {

struct GraphLimits {
  int64_t max_nodes = 1 << 20;
  // For a graph that a client wrote: two nodes of one name and uses of hidden outputs are mistakes. Gradients do both.
  bool client_graph = false;
};

// INVALID_ARGUMENT: an entry without a node, a cycle (named node by node, shortened), an output index that the node
// does not have, or two variables of one name. A wrong number of inputs is INVALID_ARGUMENT, too, and so is a
// mistake that `limits.client_graph` names. RESOURCE_EXHAUSTED: more than limits.max_nodes.
absl::Status Validate(const NodeOrder& order, const GraphLimits& limits = {});
absl::Status Validate(const Graph& graph, const GraphLimits& limits = {});

// INVALID_ARGUMENT lists every operator of the graph that has no kernel on `device`, with the nodes that use it.
absl::Status CheckKernels(const NodeOrder& order, DeviceType device);

}  // namespace gluond

#endif  // ENGINE_PASSES_VALIDATE_H_
