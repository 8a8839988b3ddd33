// ModelDefinition: what a model is before it has values. Made from a tree of Blocks (block.h), from a list of nodes
// (node_spec.h), or by hand.

#ifndef ENGINE_NN_DEFINITION_H_
#define ENGINE_NN_DEFINITION_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "engine/core/graph.h"
#include "engine/nn/parameter.h"

namespace gluond {

struct ModelInput {
  std::string name;
  Shape shape;  // -1: any size, as the batch's axis. Unknown rank: any shape.
  DType dtype = DType::kFloat32;
};

struct ModelDefinition {
  std::vector<ModelInput> inputs;
  std::vector<NodeEntry> outputs;
  std::vector<std::string> output_names;  // One for each output.
  std::vector<Parameter> parameters;      // Every variable that is not an input; without tensors.
};

// The names of the variables that an operator writes.
absl::flat_hash_set<std::string> MutatedVariables(absl::Span<const NodeEntry> outputs);

// Marks as auxiliary the parameters that an operator of the graph mutates, and sets their grad_req to kNull.
void MarkAuxiliary(ModelDefinition* definition);

}  // namespace gluond

#endif  // ENGINE_NN_DEFINITION_H_
