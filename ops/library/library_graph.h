// gluond_graph: a gradient that a library's function is writing.

#ifndef OPS_LIBRARY_LIBRARY_GRAPH_H_
#define OPS_LIBRARY_LIBRARY_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"
#include "ops/library/gluond_op.h"

struct gluond_graph {
  gluond_graph(const gluond::NodePtr& node, const gluond::Gradients& heads)
      : node(node), heads(heads), gradients(node->num_inputs()) {}

  const gluond::NodePtr& node;
  const gluond::Gradients& heads;
  std::vector<gluond::NodeEntry> entries;  // By number, from 1 on.
  gluond::Gradients gradients;             // By input.
  absl::Status status;                     // The first mistake.
};

namespace gluond::ops {

// Sets the functions of the table by which libraries write graphs.
void AddGraphFunctions(gluond_op_api* api);

}  // namespace gluond::ops

#endif  // OPS_LIBRARY_LIBRARY_GRAPH_H_
