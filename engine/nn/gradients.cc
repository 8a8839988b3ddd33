#include "engine/nn/gradients.h"

#include <map>

#include "engine/core/status_macros.h"
#include "engine/passes/gradient.h"

namespace gluond {

absl::StatusOr<std::vector<GraphOutput>> GradientOutputs(const std::vector<NodeEntry>& ys, const std::vector<NodeEntry>& heads,
                                                         const ParameterStore& parameters) {
  std::map<size_t, NodePtr> variables;
  PostOrderVisit(ys, [&](const NodePtr& node) {
    if (!node->is_variable()) return;
    const absl::StatusOr<Parameter> parameter = parameters.Get(node->name());
    if (parameter.ok() && parameter->grad_req != GradReq::kNull) variables[*parameters.Find(node->name())] = node;
  });
  std::vector<NodeEntry> xs;
  for (const auto& [parameter, variable] : variables) xs.push_back({variable, 0});
  if (xs.empty()) return std::vector<GraphOutput>{};
  ASSIGN_OR_RETURN(const Gradients gradients, BuildGradient(ys, xs, heads));
  std::vector<GraphOutput> outputs;
  for (const auto& [parameter, variable] : variables) {
    outputs.push_back({gradients[outputs.size()], GraphOutput::kGradient, parameter});
  }
  return outputs;
}

}  // namespace gluond
