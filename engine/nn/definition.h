// ModelDefinition: what a model is before it has values. Made from a tree of Blocks (block.h), from a list of nodes
// (node_spec.h), or by hand.

#ifndef ENGINE_NN_DEFINITION_H_
#define ENGINE_NN_DEFINITION_H_

#include <string>
#include <vector>

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

// Marks as auxiliary the parameters that an operator of the graph mutates, and sets their grad_req to kNull.
void MarkAuxiliary(ModelDefinition* definition);

}  // namespace gluond

#endif  // ENGINE_NN_DEFINITION_H_
