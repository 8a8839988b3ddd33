// InferShapeType: every shape and type of a graph from what is known of its variables, sweeping forward and backward
// until nothing more becomes known, as MXNet does.

#ifndef ENGINE_PASSES_INFER_H_
#define ENGINE_PASSES_INFER_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"

namespace gluond {

struct Signature {
  Shape shape;  // May be unknown, wholly or in part.
  DType dtype = DType::kUnknown;
};
using Signatures = absl::flat_hash_map<std::string, Signature>;  // By variable name.

// By entry id of the IndexedGraph.
struct Inferred {
  ShapeVector shapes;
  TypeVector types;
};

// A variable's "__shape__" and "__dtype__" attributes count as known, too.
// INVALID_ARGUMENT: a contradiction ("Error in operator conv1 (Convolution): input 1 'weight': ...").
// FAILED_PRECONDITION: something stays unknown: names the first such node in topological order, its operator, and
// which of its inputs are unknown. InferPartially returns the known part instead.
absl::StatusOr<Inferred> InferShapeType(const IndexedGraph& graph, const Signatures& known);
absl::StatusOr<Inferred> InferPartially(const IndexedGraph& graph, const Signatures& known);

}  // namespace gluond

#endif  // ENGINE_PASSES_INFER_H_
