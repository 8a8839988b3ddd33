// Estimates of the server's memory that graphs take: no allocator sees nodes, names and attributes.

#ifndef SERVER_HOSTED_GRAPH_MEMORY_H_
#define SERVER_HOSTED_GRAPH_MEMORY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "engine/core/graph.h"

namespace gluond::server {

// A node that is kept: its name, its attributes, its inputs, and its places in the tables of passes.
inline constexpr int64_t kNodeBytes = 640;
// Memory beside a node while it is made, and while types are inferred: its description, tables by name, results.
inline constexpr int64_t kMakingNodeBytes = 1024;

inline int64_t CountNodes(absl::Span<const NodeEntry> outputs) {
  int64_t nodes = 0;
  PostOrderVisit(outputs, [&nodes](const NodePtr&) { ++nodes; });
  return nodes;
}

}  // namespace gluond::server

#endif  // SERVER_HOSTED_GRAPH_MEMORY_H_
