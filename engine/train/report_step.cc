// Reports of a step's program. Apart from the trainer, whose other code needs no compiler.

#include <utility>

#include "engine/core/status_macros.h"
#include "engine/nn/model_report.h"
#include "engine/train/trainer_parts.h"

namespace gluond {

absl::StatusOr<ProgramReport> StepGraphs::Report(const InputShapes& given) const {
  ParameterStore parameters;  // A copy: the strand may change its own meanwhile.
  bool shapes_known = true;
  for (Parameter& parameter : model_.parameters().List()) {
    shapes_known = shapes_known && parameter.shape.known();
    RETURN_IF_ERROR(parameters.Add(std::move(parameter)));
  }
  ASSIGN_OR_RETURN(const Nodes nodes, StepNodes(/*train=*/true, /*weighted=*/false, parameters));
  Graph graph;
  for (const GraphOutput& output : nodes.first) graph.outputs.push_back(output.entry);
  UnitOptions options = {.is_train = true, .num_first = graph.outputs.size()};
  Signatures known;
  if (shapes_known) {
    JointUpdate joint(prefix_);
    ASSIGN_OR_RETURN(const GraphRest rest, Rest(nodes, parameters, &joint));
    for (const GraphOutput& output : rest.outputs) graph.outputs.push_back(output.entry);
    for (const BoundVariable& variable : rest.variables) known[variable.name] = variable.signature();
    for (const JointUpdate::Variable& variable : joint.variables()) known[variable.name] = {variable.shape, variable.type};
  }
  return ReportModel(model_, graph, std::move(options), Inputs(/*weighted=*/false), given, std::move(known));
}

absl::StatusOr<ProgramReport> Trainer::ReportStep(const InputShapes& given) const { return parts_->graphs->Report(given); }

}  // namespace gluond
