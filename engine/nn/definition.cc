#include "engine/nn/definition.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/core/op.h"

namespace gluond {

absl::flat_hash_set<std::string> MutatedVariables(absl::Span<const NodeEntry> outputs) {
  absl::flat_hash_set<std::string> mutated;
  PostOrderVisit(outputs, [&mutated](const NodePtr& node) {
    if (node->is_variable()) return;
    const auto* inputs = node->op()->GetAttr<FMutateInputs>("FMutateInputs");
    if (inputs == nullptr) return;
    for (uint32_t i : (*inputs)(node->attrs)) {
      if (i < node->inputs.size() && node->inputs[i].node->is_variable()) mutated.insert(node->inputs[i].node->name());
    }
  });
  return mutated;
}

void MarkAuxiliary(ModelDefinition* definition) {
  const absl::flat_hash_set<std::string> mutated = MutatedVariables(definition->outputs);
  for (Parameter& parameter : definition->parameters) {
    if (!mutated.contains(parameter.name)) continue;
    parameter.auxiliary = true;
    parameter.grad_req = GradReq::kNull;
  }
}

}  // namespace gluond
