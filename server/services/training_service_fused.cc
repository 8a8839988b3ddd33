// TrainingService's methods that do everything at once: TrainStep and Evaluate.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/codec/row_selection.h"
#include "server/codec/tensors_codec.h"
#include "server/services/expectation.h"
#include "server/services/stopwatch.h"
#include "server/services/train_plan.h"
#include "server/services/training_service.h"

namespace gluond::server {
namespace {

template <class Request>
absl::Status CheckOneSource(const Request& request) {
  if (request.has_rows() != !request.inputs().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("want `inputs` or `rows`, got ", request.has_rows() ? "both" : "neither"));
}

template <class Request>
absl::Status CheckBatchSize(const Request& request) {
  return request.has_batch_size() ? CheckPositive("batch_size", request.batch_size()) : absl::OkStatus();
}

absl::Status CheckSteps(const v1::TrainStepRequest& request) {
  RETURN_IF_ERROR(CheckBatchSize(request));
  if (request.has_steps()) RETURN_IF_ERROR(CheckPositive("steps", request.steps()));
  RETURN_IF_ERROR(CheckOneSource(request));
  if (!request.has_rows() && request.steps() > 1) {
    return absl::InvalidArgumentError("one batch of `inputs` makes one step; name `rows` of a dataset for more");
  }
  return absl::OkStatus();
}

// Trains by `train` and answers: of a step or several, `batch_size` rows each but for the last.
template <class CallType>
void TrainAndAnswer(const CallType& call, const HostedModelPtr& hosted, int64_t batch_size, int64_t begin,
                    const std::function<void(Trainer::OnStep)>& train) {
  const auto watch = Stopwatch::Start(call.runner(), hosted->model());
  const auto answer = [call, batch_size, begin, watch](const StepReport& report) {
    call.Settles();
    v1::TrainStepResponse& response = call.response();
    ToProto(report, response.mutable_report());
    response.set_samples(report.samples);
    response.set_steps(batch_size == 0 ? 1 : (report.samples + batch_size - 1) / batch_size);
    response.set_loss(report.loss);
    SetMetrics(report.metrics, response.mutable_metrics());
    if (begin >= 0) response.set_next_begin(begin + report.samples);
    watch->Stop(response.mutable_timing());
    call.Finish();
  };
  Change<absl::StatusOr<StepReport>>(call, hosted, HostedModel::Counts::kVersion, train, answer);
}

}  // namespace

void TrainingService::TrainStep(TrainStepCall call) {
  FINISH_IF_ERROR(call, CheckSteps(call.request()));
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
  call.request().has_rows() ? TrainOnRows(call, std::move(hosted)) : TrainOnBatch(call, std::move(hosted));
}

void TrainingService::TrainOnBatch(TrainStepCall call, HostedModelPtr hosted) {
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  ASSIGN_OR_FINISH(call, NamedTensors inputs,
                   DecodeTensors("input", call.request().inputs(), call.attachments(), hosted->host_allocator()));
  TrainAndAnswer(call, hosted, /*batch_size=*/0, /*begin=*/-1, [&](Trainer::OnStep done) {
    trainer->TrainStep(std::move(inputs), {.batch_size = call.request().batch_size()}, call.cancellation(), std::move(done));
  });
}

void TrainingService::TrainOnRows(TrainStepCall call, HostedModelPtr hosted) {
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  ASSIGN_OR_FINISH(call, std::shared_ptr<const Dataset> dataset, datasets_.Committed(call.request().rows().dataset()));
  const Weight weight = WeightOfOrder(call.request().rows(), *dataset);
  const auto train = [this, call, hosted = std::move(hosted), trainer = std::move(trainer), dataset = std::move(dataset)] {
    TrainOnRows(call, hosted, *trainer, dataset);
  };
  runner().dispatch.Run(weight, train);
}

void TrainingService::TrainOnRows(TrainStepCall call, const HostedModelPtr& hosted, Trainer& trainer,
                                  const std::shared_ptr<const Dataset>& dataset) {
  const v1::TrainStepRequest& request = call.request();
  DatasetSteps steps;
  ASSIGN_OR_FINISH(call, steps.rows, SelectRows(request.rows(), *dataset, hosted->host_allocator()));
  const bool is_range = request.rows().indices().empty();
  if (is_range && !request.has_batch_size()) {
    return call.Finish(absl::InvalidArgumentError("a range of rows needs a batch_size"));
  }
  const int64_t count = steps.rows.Size();
  steps.batch_size = request.has_batch_size() ? std::min(request.batch_size(), count) : count;
  const int64_t whole = count / steps.batch_size;
  steps.steps = request.drop_last() || count % steps.batch_size == 0 ? whole : whole + 1;
  if (request.drop_last() && request.batch_size() > count) steps.steps = 0;
  if (request.has_steps()) steps.steps = std::min(steps.steps, request.steps());
  if (steps.steps == 0) {
    return call.Finish(absl::InvalidArgumentError(
        absl::StrCat("the ", count, " rows make no batch of ", request.batch_size(), "; leave `drop_last` out")));
  }
  steps.dataset = dataset;
  steps.keep_last = !request.drop_last();
  const int64_t batch_size = steps.batch_size;
  TrainAndAnswer(call, hosted, batch_size, is_range ? request.rows().begin() : -1,
                 [&](Trainer::OnStep done) { trainer.TrainSteps(std::move(steps), call.cancellation(), std::move(done)); });
}

void TrainingService::Evaluate(EvaluateCall call) {
  const v1::EvaluateRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  FINISH_IF_ERROR(call, CheckOneSource(request));
  FINISH_IF_ERROR(call, CheckBatchSize(request));
  const auto watch = Stopwatch::Start(call.runner(), hosted->model());
  const auto answer = call.Then([call, hosted, watch](const EvaluateReport& report) {
    ToProto(report, &call.response());
    watch->Stop(call.response().mutable_timing());
    call.Finish();
  });
  if (!request.has_rows()) {
    ASSIGN_OR_FINISH(call, NamedTensors inputs,
                     DecodeTensors("input", request.inputs(), call.attachments(), hosted->host_allocator()));
    return trainer->Evaluate(std::move(inputs), call.cancellation(), answer);
  }
  const int64_t batch_size = request.has_batch_size() ? request.batch_size() : kEvaluatedTogether;
  ASSIGN_OR_FINISH(call, const EvaluatedRows rows, ToEvaluatedRows(request.rows(), batch_size, datasets_));
  trainer->Evaluate(rows.dataset, rows.batch_size, rows.first, rows.count, call.cancellation(), answer);
}

}  // namespace gluond::server
