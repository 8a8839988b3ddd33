// ModelDefinition: a model without values. It is made from a tree of Blocks (block.h), from a list of nodes
// (node_spec.h), or by hand.

#ifndef ENGINE_NN_DEFINITION_H_
#define ENGINE_NN_DEFINITION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/graph.h"
#include "engine/core/tensor.h"
#include "engine/nn/parameter.h"
#include "engine/passes/infer.h"
#include "engine/runtime/lane.h"

namespace gluond {

struct ModelInput {
  std::string name;
  Shape shape;  // -1: any size, as on the batch's axis. Unknown rank: any shape.
  DType dtype = DType::kFloat32;
};

struct ModelDefinition {
  std::vector<ModelInput> inputs;
  std::vector<NodeEntry> outputs;
  std::vector<std::string> output_names;  // One for each output.
  std::vector<Parameter> parameters;      // Every variable that is not an input; without tensors.
};

struct ModelOptions {
  std::string name;
  uint64_t seed = 0;
  Lane* lane = nullptr;                       // Must outlive the model.
  std::shared_ptr<Allocator> allocator;       // The device's memory: parameters, gradients, arenas.
  std::shared_ptr<Allocator> host_allocator;  // The host's memory; may be the same.
  int max_compiled = 32;                      // Compiled graphs kept; the least recently used one goes first.
  bool clients_are_away = false;              // The clients that compute some operators cannot be asked yet: what only they know is
                                              // left open. Otherwise that is UNAVAILABLE.
};

struct ModelOutput {
  std::string name;
  Signature signature;  // As far as known without a batch; -1 on the batch's axis.
};

// Marks as auxiliary the parameters that an operator of the graph mutates, and sets their grad_req to kNull.
void MarkAuxiliary(ModelDefinition* definition);

}  // namespace gluond

#endif  // ENGINE_NN_DEFINITION_H_
