#include "server/services/training_service.h"

#include <utility>

#include "server/codec/trainer_codec.h"
#include "server/hosted/describe_model.h"
#include "server/services/expectation.h"
#include "server/services/pages.h"

namespace gluond::server {

TrainingService::TrainingService(Runner& runner, Devices& devices, Models& models, Datasets& datasets, StoredDatasets* stored)
    : RawService(runner, "gluond.v1.TrainingService"), devices_(devices), models_(models), datasets_(datasets), stored_(stored) {
  Add("Forward", this, &TrainingService::Forward, &v1::ForwardRequest::inputs);
  Add("Backward", this, &TrainingService::Backward, &v1::BackwardRequest::head_gradients);
  Add("CreateTrainer", this, &TrainingService::CreateTrainer);
  Add("GetTrainer", this, &TrainingService::GetTrainer);
  Add("Step", this, &TrainingService::Step);
  Add("TrainStep", this, &TrainingService::TrainStep, &v1::TrainStepRequest::inputs);
  Add("Train", this, &TrainingService::Train);
  Add("CancelTraining", this, &TrainingService::CancelTraining);
  Add("ZeroGradients", this, &TrainingService::ZeroGradients);
  Add("GetGradients", this, &TrainingService::GetGradients);
  Add("SetLearningRate", this, &TrainingService::SetLearningRate);
  Add("GetOptimizerState", this, &TrainingService::GetOptimizerState);
  Add("SetOptimizerState", this, &TrainingService::SetOptimizerState, &v1::SetOptimizerStateRequest::states);
  Add("Evaluate", this, &TrainingService::Evaluate, &v1::EvaluateRequest::inputs);
  Add("UploadDataset", this, &TrainingService::UploadDataset, &v1::UploadDatasetRequest::tensors);
  Add("ListDatasets", this, &TrainingService::ListDatasets);
  Add("DeleteDataset", this, &TrainingService::DeleteDataset);
  Add("GetSequence", this, &TrainingService::GetSequence);
}

void TrainingService::CreateTrainer(Call<v1::CreateTrainerRequest, v1::CreateTrainerResponse> call) {
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
  FINISH_IF_ERROR(call, CheckExpectedVersion(call, hosted));
  ASSIGN_OR_FINISH(call, TrainerOptions options, TrainerOptionsFromProto(call.request()));
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
  const auto set = [trainer, rate = call.request().learning_rate()] { return trainer->SetLearningRate(rate); };
  Change<absl::Status>(
      call, hosted, HostedModel::Counts::kEdit,
      [&](auto done) { hosted->model().strand().template Do<absl::Status>(set, std::move(done)); },  // In order with steps.
      [call] { call.Finish(); });
}

void TrainingService::UploadDataset(Call<v1::UploadDatasetRequest, v1::UploadDatasetResponse> call) {
  HostedDataset::Stored done;
  if (stored_ != nullptr) done = [call](const absl::Status& status) { call.Finish(status); };
  HostedDatasetPtr to_store;
  ASSIGN_OR_FINISH(call, const HostedDataset::Next next,
                   datasets_.Upload(call.request(), call.attachments(), *devices_.host().allocator, std::move(done), &to_store,
                                    &call.response()));
  if (next == HostedDataset::Next::kAnswer) call.Finish();
  if (next == HostedDataset::Next::kStore) stored_->Save(call.request().dataset(), std::move(to_store));
}

void TrainingService::ListDatasets(Call<v1::ListDatasetsRequest, v1::ListDatasetsResponse> call) {
  auto datasets = datasets_.List();
  KeepThoseWithin(call.reach(), &datasets, [](const auto& each) { return each.first; });
  ASSIGN_OR_FINISH(call, const Page page, PageOf(call.request(), datasets, [](const auto& each) { return each.first; }));
  for (size_t i = page.begin; i < page.end; ++i) {
    datasets[i].second->Describe(datasets[i].first, call.response().add_datasets());
  }
  call.response().set_next_page_token(page.next);
  call.Finish();
}

void TrainingService::DeleteDataset(Call<v1::DeleteDatasetRequest, v1::DeleteDatasetResponse> call) {
  const v1::DeleteDatasetRequest& request = call.request();
  const std::optional<std::string> expected = ExpectedEtag(request);
  if (stored_ != nullptr) {
    return stored_->Delete(request.dataset(), expected, [call](const absl::Status& status) { call.Finish(status); });
  }
  if (!expected.has_value()) return call.Finish(datasets_.Remove(request.dataset()).status());
  ASSIGN_OR_FINISH(call, const HostedDatasetPtr hosted, datasets_.Expect(request.dataset(), *expected));
  call.Finish(datasets_.Remove(request.dataset(), hosted));
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
  call.response().set_in_part(runner().sequences.TellInPart(request.client_id(), request.model()));
  call.Finish();
}

}  // namespace gluond::server
