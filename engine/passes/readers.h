// ReadersOf counts who reads each entry of a graph: a call that nobody else reads may be changed for its only reader.

#ifndef ENGINE_PASSES_READERS_H_
#define ENGINE_PASSES_READERS_H_

#include <vector>

#include "engine/core/graph.h"

namespace gluond {

// By entry: inputs of calls, and the graph's outputs.
inline std::vector<int> ReadersOf(const IndexedGraph& graph) {
  std::vector<int> readers(graph.num_entries(), 0);
  for (const IndexedGraph::IndexedNode& node : graph.nodes()) {
    for (const IndexedGraph::Input& input : node.inputs) ++readers[input.entry];
  }
  for (const IndexedGraph::Input& output : graph.outputs()) ++readers[output.entry];
  return readers;
}

}  // namespace gluond

#endif  // ENGINE_PASSES_READERS_H_
