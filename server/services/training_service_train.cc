// TrainingService's Train and CancelTraining.

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "server/services/training_service.h"

namespace gluond::server {

void TrainingService::Train(TrainRun::TrainCall call) {
  const std::string& name = call.request().model();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(name));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  ASSIGN_OR_FINISH(call, TrainPlan plan, ToTrainPlan(call.request(), *trainer, datasets_));
  const HostedModel* const key = hosted.get();
  const auto run =
      std::make_shared<TrainRun>(runner(), models_, call, std::move(hosted), std::move(trainer), std::move(plan), [this, key] {
        MutexLock lock(trainings_mu_);
        trainings_.erase(key);
      });
  bool is_first;
  {
    MutexLock lock(trainings_mu_);
    is_first = trainings_.try_emplace(key, run).second;
  }
  if (is_first) return run->Start();
  call.Finish(WithInfo(absl::FailedPreconditionError(absl::StrCat("a Train of model '", name,
                                                                  "' is under way; wait for its end, or end it by CancelTraining")),
                       reason::kTrainingUnderWay));
}

void TrainingService::CancelTraining(Call<v1::CancelTrainingRequest, v1::CancelTrainingResponse> call) {
  ASSIGN_OR_FINISH(call, const HostedModelPtr hosted, models_.Find(call.request().model()));
  std::shared_ptr<TrainRun> run;
  {
    MutexLock lock(trainings_mu_);
    const auto found = trainings_.find(hosted.get());
    if (found != trainings_.end()) run = found->second.lock();
  }
  if (run != nullptr) run->Cancel();
  call.response().set_cancelled(run != nullptr);
  call.Finish();
}

}  // namespace gluond::server
