#include "engine/nn/definition.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/core/op_facts.h"

namespace gluond {

void MarkAuxiliary(ModelDefinition* definition) {
  const absl::flat_hash_set<std::string> mutated = MutatedVariables(PostOrder(definition->outputs));
  for (Parameter& parameter : definition->parameters) {
    if (!mutated.contains(parameter.name)) continue;
    parameter.auxiliary = true;
    parameter.grad_req = GradReq::kNull;
  }
}

}  // namespace gluond
