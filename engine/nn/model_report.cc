#include "engine/nn/model_report.h"

#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/constants.h"

namespace gluond {
namespace {

absl::Status CheckAreInputs(const std::vector<ModelInput>& inputs, const InputShapes& given) {
  std::vector<std::string> names;
  for (const ModelInput& input : inputs) names.push_back(input.name);
  for (const auto& [name, shape] : given) {
    if (absl::c_linear_search(names, name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("there is no input '", Excerpt(name), "'", DidYouMean(name, names),
                                                   " (inputs: ", absl::StrJoin(names, ", "), ")"));
  }
  return absl::OkStatus();
}

absl::Status AddInputs(const std::vector<ModelInput>& inputs, const InputShapes& given, Signatures* known) {
  RETURN_IF_ERROR(CheckAreInputs(inputs, given));
  for (const ModelInput& input : inputs) {
    Shape shape = input.shape;
    const auto own = given.find(input.name);
    if (own != given.end() && !ShapeAssign(&shape, own->second)) {
      return absl::InvalidArgumentError(absl::StrCat("input '", Excerpt(input.name), "' has shape ", own->second.ToString(),
                                                     ", expected ", input.shape.ToString()));
    }
    if (own == given.end() && shape.ndim() > 0 && shape[0] == Shape::kUnknown) shape[0] = 1;
    (*known)[input.name] = {shape, input.dtype};
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ProgramReport> ReportModel(const Model& model, const Graph& graph, UnitOptions options,
                                          const std::vector<ModelInput>& inputs, const InputShapes& given, Signatures known,
                                          PassHistory before) {
  RETURN_IF_ERROR(AddInputs(inputs, given, &known));
  std::string open;
  for (const ModelInput& input : inputs) {
    const Shape& shape = known[input.name].shape;
    if (!shape.known()) absl::StrAppend(&open, open.empty() ? "" : ", ", Excerpt(input.name), " ", shape.ToString());
  }
  absl::flat_hash_set<std::string> names;
  for (const Parameter& parameter : model.parameters().List()) {
    known[parameter.name] = {parameter.shape, parameter.dtype};
    names.insert(parameter.name);
  }
  options.device = model.options().lane->device();
  options.payer = model.options().allocator.get();
  if (!options.is_train) {
    options.constants = std::make_shared<const absl::flat_hash_set<std::string>>(UnwrittenBy(graph, std::move(names)));
  }
  absl::StatusOr<ProgramReport> report = ReportProgram(graph, known, options, LeftOutPasses(), std::move(before));
  if (!absl::IsFailedPrecondition(report.status()) || open.empty()) return report;
  return absl::FailedPreconditionError(
      absl::StrCat(report.status().message(), ". Tell the whole shapes of the inputs; open are: ", open));
}

absl::StatusOr<ProgramReport> ReportModel(const Model& model, const InputShapes& given, PassHistory before) {
  return ReportModel(model, Graph{model.definition().outputs}, UnitOptions(), model.inputs(), given, {}, std::move(before));
}

}  // namespace gluond
