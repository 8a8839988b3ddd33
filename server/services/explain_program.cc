#include "server/services/explain_program.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "engine/core/error_info.h"
#include "engine/core/graph.h"
#include "engine/core/status_macros.h"
#include "engine/nn/model_report.h"
#include "server/codec/program_codec.h"
#include "server/serving/version_table.h"

namespace gluond::server {
namespace {

// A call of a graph while it is looked at: nodes that passes make, tables, its step, and that step's message.
constexpr int64_t kExplainedCallBytes = 8192;
// An input or output of a call: twice a name, a shape and a place, in the step and in its message.
constexpr int64_t kExplainedTensorBytes = 1024;
// A step of training has about so many calls for each call of the model.
constexpr int64_t kCallsOfATrainStep = 4;

// The model that is looked at, which goes on until the handle goes, and what was done to its graph.
struct Explained {
  std::shared_ptr<const HostedModel> hosted;
  PassHistory history;
};

absl::StatusOr<Explained> FindExplained(const v1::ExplainRequest& request, const Models& models, const VersionTable& served,
                                        v1::ExplainResponse* response) {
  if (request.model().empty() == request.served().empty()) {
    return InField("model", Invalid("want a `model`, or in `served` the name of published versions, one of them"));
  }
  if (!v1::ExplainRequest::Mode_IsValid(request.mode())) {
    return InField("mode", Invalid("there is no mode ", request.mode(), "; want PREDICT or TRAIN_STEP"));
  }
  if (request.served().empty()) {
    if (!request.version().empty()) return InField("version", Invalid("a model has no versions; name them in `served`"));
    response->set_name(request.model());
    ASSIGN_OR_RETURN(const std::shared_ptr<const HostedModel> hosted, models.Use(request.model()));
    return Explained{hosted, {}};
  }
  if (request.mode() != v1::ExplainRequest::PREDICT) {
    return InField("mode", Invalid("a published version only predicts; leave `mode` out, or name a `model`"));
  }
  ASSIGN_OR_RETURN(const ServedVersionPtr version, served.Choose(request.served(), request.version(), std::nullopt));
  response->set_name(request.served());
  response->set_version(version->number());
  return Explained{{version, &version->model()}, version->history()};
}

// Leaves out what explain.proto says, as far as it must.
void FitProgram(int64_t most_bytes, v1::ExplainResponse* response) {
  const auto fits = [&] { return static_cast<int64_t>(response->ByteSizeLong()) <= most_bytes; };
  if (fits()) return;
  for (v1::ProgramStep& step : *response->mutable_steps()) step.clear_inputs();
  if (fits()) return;
  for (v1::ProgramPass& pass : *response->mutable_passes()) pass.clear_changes();
  if (fits()) return;
  constexpr int64_t kStepHead = 8;  // The most bytes before a step.
  google::protobuf::RepeatedPtrField<v1::ProgramStep> steps;
  steps.Swap(response->mutable_steps());
  int64_t room = most_bytes - static_cast<int64_t>(response->ByteSizeLong());
  for (v1::ProgramStep& step : steps) {
    room -= static_cast<int64_t>(step.ByteSizeLong()) + kStepHead;
    if (room < 0) break;
    response->add_steps()->Swap(&step);
  }
}

}  // namespace

absl::Status ExplainProgram(const v1::ExplainRequest& request, const Models& models, const VersionTable& served,
                            const std::shared_ptr<Budget>& memory, int64_t most_bytes, v1::ExplainResponse* response) {
  ASSIGN_OR_RETURN(Explained explained, FindExplained(request, models, served, response));
  ASSIGN_OR_RETURN(const InputShapes shapes, InputShapesFromProto(request.inputs()));
  const Model& model = explained.hosted->model();
  const bool trains = request.mode() == v1::ExplainRequest::TRAIN_STEP;
  Reservation meanwhile(Budget::PartOf(memory));
  int64_t bytes = 0;
  PostOrderVisit(model.definition().outputs, [&bytes](const NodePtr& node) {
    bytes += kExplainedCallBytes + kExplainedTensorBytes * (int64_t{node->num_inputs()} + node->num_outputs());
  });
  RETURN_IF_ERROR(meanwhile.Grow(bytes * (trains ? kCallsOfATrainStep : 1)));
  absl::StatusOr<ProgramReport> report = absl::InternalError("");
  std::vector<ModelInput> inputs = model.inputs();
  if (trains) {
    ASSIGN_OR_RETURN(const std::shared_ptr<Trainer> trainer, explained.hosted->NeedTrainer());
    report = trainer->ReportStep(shapes);
    inputs = trainer->inputs();
  } else {
    report = ReportModel(model, shapes, std::move(explained.history));
  }
  RETURN_IF_ERROR(report.status());
  response->set_device(model.options().lane->device().ToString());
  response->set_mode(request.mode());
  for (const ProgramReport::Tensor& variable : report->variables) {
    const auto is_it = [&](const ModelInput& input) { return input.name == variable.name; };
    if (absl::c_any_of(inputs, is_it)) ProgramTensorToProto(variable, response->add_inputs());
  }
  ProgramToProto(*report, response);
  FitProgram(most_bytes, response);
  return absl::OkStatus();
}

}  // namespace gluond::server
