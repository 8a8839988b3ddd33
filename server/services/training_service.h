// TrainingService: training by hand or fused, and the datasets to train on (proto/gluond/v1/training.proto).
// training_service.cc: trainers and datasets; training_service_by_hand.cc: Forward, Backward, Step;
// training_service_fused.cc: TrainStep, Evaluate; training_service_train.cc: Train (train_run.h);
// training_service_optimizer.cc: the optimizer's state.

#ifndef SERVER_SERVICES_TRAINING_SERVICE_H_
#define SERVER_SERVICES_TRAINING_SERVICE_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "engine/core/mutex.h"
#include "gluond/v1/training.pb.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_dataset.h"
#include "server/hosted/hosted_model.h"
#include "server/rpc/raw_service.h"
#include "server/services/train_run.h"

namespace gluond::server {

class TrainingService final : public RawService {
 public:
  // All outlive the service.
  TrainingService(Runner& runner, Devices& devices, Models& models, Datasets& datasets);

 private:
  void CreateTrainer(Call<v1::CreateTrainerRequest, v1::CreateTrainerResponse> call);
  void GetTrainer(Call<v1::GetTrainerRequest, v1::GetTrainerResponse> call);
  void SetLearningRate(Call<v1::SetLearningRateRequest, v1::SetLearningRateResponse> call);
  void GetOptimizerState(Call<v1::GetOptimizerStateRequest, v1::GetOptimizerStateResponse> call);
  void SetOptimizerState(Call<v1::SetOptimizerStateRequest, v1::SetOptimizerStateResponse> call);

  void Forward(Call<v1::ForwardRequest, v1::ForwardResponse> call);
  void Backward(Call<v1::BackwardRequest, v1::BackwardResponse> call);
  void Step(Call<v1::StepRequest, v1::StepResponse> call);
  void ZeroGradients(Call<v1::ZeroGradientsRequest, v1::ZeroGradientsResponse> call);
  void GetGradients(Call<v1::GetGradientsRequest, v1::GetGradientsResponse> call);

  using TrainStepCall = Call<v1::TrainStepRequest, v1::TrainStepResponse>;
  using EvaluateCall = Call<v1::EvaluateRequest, v1::EvaluateResponse>;
  void TrainStep(TrainStepCall call);
  void TrainOnBatch(TrainStepCall call, HostedModelPtr hosted);
  void TrainOnRows(TrainStepCall call, HostedModelPtr hosted);
  void TrainOnRows(TrainStepCall call, const HostedModelPtr& hosted, Trainer& trainer,
                   const std::shared_ptr<const Dataset>& dataset);
  void Evaluate(EvaluateCall call);

  void Train(TrainRun::TrainCall call);
  void CancelTraining(Call<v1::CancelTrainingRequest, v1::CancelTrainingResponse> call);

  void UploadDataset(Call<v1::UploadDatasetRequest, v1::UploadDatasetResponse> call);
  void ListDatasets(Call<v1::ListDatasetsRequest, v1::ListDatasetsResponse> call);
  void DeleteDataset(Call<v1::DeleteDatasetRequest, v1::DeleteDatasetResponse> call);
  void GetSequence(Call<v1::GetSequenceRequest, v1::GetSequenceResponse> call);

  Devices& devices_;
  Models& models_;
  Datasets& datasets_;

  Mutex trainings_mu_;
  // The trainings under way, by model.
  absl::flat_hash_map<const HostedModel*, std::weak_ptr<TrainRun>> trainings_ ABSL_GUARDED_BY(trainings_mu_);
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_TRAINING_SERVICE_H_
