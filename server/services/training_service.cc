#include "server/services/training_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/nn/loss.h"
#include "engine/train/lr_schedule.h"
#include "engine/train/metric.h"
#include "engine/train/optimizer.h"
#include "server/codec/components.h"
#include "server/hosted/describe_model.h"

namespace gluond::server {
namespace {

absl::StatusOr<TrainerOptions> OptionsFromProto(const v1::CreateTrainerRequest& request) {
  TrainerOptions options;
  options.prediction = request.prediction();
  switch (request.objective_case()) {
    case v1::CreateTrainerRequest::kLoss: {
      ASSIGN_OR_RETURN(options.loss, SpecFromProto(request.loss(), Losses()));
      if (options.loss.type.empty()) return absl::InvalidArgumentError("`loss` needs a name");
      break;
    }
    case v1::CreateTrainerRequest::kLossOutput:
      if (!request.prediction().empty()) {
        return absl::InvalidArgumentError("want `prediction` with a loss, or `loss_output`, got both");
      }
      options.loss = {};
      options.prediction = request.loss_output();
      break;
    case v1::CreateTrainerRequest::OBJECTIVE_NOT_SET:
      return absl::InvalidArgumentError("want `loss` or `loss_output`, got neither");
  }
  if (request.has_optimizer()) {
    ASSIGN_OR_RETURN(Spec optimizer, SpecFromProto(request.optimizer(), Optimizers()));
    if (!optimizer.type.empty()) options.optimizer = std::move(optimizer);
  }
  ASSIGN_OR_RETURN(options.lr_schedule, SpecFromProto(request.lr_scheduler(), LrSchedules()));
  for (const v1::Component& metric : request.metrics()) {
    ASSIGN_OR_RETURN(options.metrics.emplace_back(), SpecFromProto(metric, Metrics()));
  }
  if (!(request.clip_global_norm() >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("clip_global_norm is ", request.clip_global_norm(), "; want 0 or more"));
  }
  options.clip_global_norm = request.clip_global_norm();
  options.skip_nonfinite = !request.has_skip_nonfinite() || request.skip_nonfinite();
  options.report_norm = !request.has_report_gradient_norm() || request.report_gradient_norm();
  return options;
}

}  // namespace

void ToProto(const StepReport& report, v1::StepReport* proto) {
  proto->set_step(report.step);
  proto->set_learning_rate(report.learning_rate);
  proto->set_gradient_norm(report.gradient_norm);
  proto->set_nonfinite(report.nonfinite);
  proto->set_skipped(report.skipped);
  for (const std::string& name : report.stale) proto->add_stale_parameters(name);
}

TrainingService::TrainingService(Runner& runner, Devices& devices, Models& models, Datasets& datasets)
    : RawService(runner, "gluond.v1.TrainingService"), devices_(devices), models_(models), datasets_(datasets) {
  Add("Forward", this, &TrainingService::Forward);
  Add("Backward", this, &TrainingService::Backward);
  Add("CreateTrainer", this, &TrainingService::CreateTrainer, Weight::kHeavy);
  Add("GetTrainer", this, &TrainingService::GetTrainer);
  Add("Step", this, &TrainingService::Step);
  Add("TrainStep", this, &TrainingService::TrainStep);
  Add("ZeroGradients", this, &TrainingService::ZeroGradients);
  Add("GetGradients", this, &TrainingService::GetGradients);
  Add("SetLearningRate", this, &TrainingService::SetLearningRate);
  Add("GetOptimizerState", this, &TrainingService::GetOptimizerState);
  Add("SetOptimizerState", this, &TrainingService::SetOptimizerState);
  Add("Evaluate", this, &TrainingService::Evaluate);
  Add("UploadDataset", this, &TrainingService::UploadDataset, Weight::kHeavy);
  Add("ListDatasets", this, &TrainingService::ListDatasets);
  Add("DeleteDataset", this, &TrainingService::DeleteDataset, Weight::kHeavy);
  Add("GetSequence", this, &TrainingService::GetSequence);
}

void TrainingService::CreateTrainer(Call<v1::CreateTrainerRequest, v1::CreateTrainerResponse> call) {
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
  ASSIGN_OR_FINISH(call, TrainerOptions options, OptionsFromProto(call.request()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, Trainer::Create(hosted->model_ptr(), std::move(options)));
  FINISH_IF_ERROR(call, hosted->SetTrainer(trainer, call.request().replace()));
  DescribeTrainer(*hosted, *trainer, call.response().mutable_trainer());
  call.Finish();
}

void TrainingService::GetTrainer(Call<v1::GetTrainerRequest, v1::GetTrainerResponse> call) {
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  DescribeTrainer(*hosted, *trainer, call.response().mutable_trainer());
  call.Finish();
}

void TrainingService::SetLearningRate(Call<v1::SetLearningRateRequest, v1::SetLearningRateResponse> call) {
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  // In order with the steps before and after it.
  Model& model = hosted->model();
  model.strand().Do<absl::Status>(
      [hosted = std::move(hosted), trainer = std::move(trainer), rate = call.request().learning_rate()] {
        hosted->Edited();
        return trainer->SetLearningRate(rate);
      },
      [call](const absl::Status& status) { call.Finish(status); });
}

void TrainingService::UploadDataset(Call<v1::UploadDatasetRequest, v1::UploadDatasetResponse> call) {
  call.Finish(datasets_.Upload(call.request(), call.attachments(), *devices_.host().allocator, &call.response()));
}

void TrainingService::ListDatasets(Call<v1::ListDatasetsRequest, v1::ListDatasetsResponse> call) {
  for (const auto& [name, hosted] : datasets_.List()) hosted->Describe(name, call.response().add_datasets());
  call.Finish();
}

void TrainingService::DeleteDataset(Call<v1::DeleteDatasetRequest, v1::DeleteDatasetResponse> call) {
  call.Finish(datasets_.Remove(call.request().dataset()).status());
}

void TrainingService::GetSequence(Call<v1::GetSequenceRequest, v1::GetSequenceResponse> call) {
  const v1::GetSequenceRequest& request = call.request();
  call.response().set_last(runner().sequences.Last(request.client_id(), request.model()));
  call.response().set_durable(runner().sequences.Durable(request.client_id(), request.model()));
  if (const absl::StatusOr<HostedModelPtr> hosted = models_.Find(request.model()); hosted.ok()) {
    if (const std::shared_ptr<Trainer> trainer = (*hosted)->trainer(); trainer != nullptr) {
      call.response().set_step(trainer->step());
    }
  }
  call.Finish();
}

}  // namespace gluond::server
