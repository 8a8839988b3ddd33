// ReportModel: the report of a program of a model's graph (engine/compile/program_report.h), for inputs of given shapes.

#ifndef ENGINE_NN_MODEL_REPORT_H_
#define ENGINE_NN_MODEL_REPORT_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/compile/pass_watcher.h"
#include "engine/compile/program_report.h"
#include "engine/compile/unit.h"
#include "engine/core/graph.h"
#include "engine/core/shape.h"
#include "engine/nn/model.h"

namespace gluond {

using InputShapes = absl::flat_hash_map<std::string, Shape>;  // By the inputs' names.

// The program of `graph`, whose variables are `inputs`, parameters of the model, and those of `known`. The model's device and
// parameters complete `options`. An input that `given` lacks has its declared shape, with 1 for an open first axis. Any thread:
// waits for nothing, and allocates no tensor. INVALID_ARGUMENT: `given` has an input that there is not, or a shape that does not
// fit. FAILED_PRECONDITION: a shape stays open; the message tells which inputs are.
absl::StatusOr<ProgramReport> ReportModel(const Model& model, const Graph& graph, UnitOptions options,
                                          const std::vector<ModelInput>& inputs, const InputShapes& given, Signatures known = {},
                                          PassHistory before = {});

// The same for the model's outputs, in predictions. `before`: what has been done to their graph.
absl::StatusOr<ProgramReport> ReportModel(const Model& model, const InputShapes& given, PassHistory before = {});

}  // namespace gluond

#endif  // ENGINE_NN_MODEL_REPORT_H_
