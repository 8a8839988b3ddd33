// Validate: what must hold of any graph before a pass looks at it.

#ifndef ENGINE_PASSES_VALIDATE_H_
#define ENGINE_PASSES_VALIDATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/device.h"
#include "engine/core/graph.h"

namespace gluond {

struct GraphLimits {
  int64_t max_nodes = 1 << 20;
};

// INVALID_ARGUMENT: a cycle (named node by node, shortened), an output index that the node does not have, a hidden
// output used as an input of a node or as an output of the graph, two variables or two nodes of one name, wrong
// number of inputs. RESOURCE_EXHAUSTED: more than limits.max_nodes.
absl::Status Validate(const Graph& graph, const GraphLimits& limits = {});

// INVALID_ARGUMENT lists every operator of the graph, with the nodes that use it, that has no kernel on `device`.
absl::Status CheckKernels(const Graph& graph, DeviceType device);

}  // namespace gluond

#endif  // ENGINE_PASSES_VALIDATE_H_
