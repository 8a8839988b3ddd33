// TrainingService: training by hand or fused, and the datasets to train on (proto/gluond/v1/training.proto).
// Train goes on in train_run.h.

#include "server/services/services.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "engine/core/error_info.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "engine/nn/strand.h"
#include "engine/runtime/cancellation_scope.h"
#include "gluond/v1/training.pb.h"
#include "server/codec/tensors_codec.h"
#include "server/codec/trainer_codec.h"
#include "server/durable/stored_datasets.h"
#include "server/group/group.h"
#include "server/hosted/describe_model.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_dataset.h"
#include "server/hosted/hosted_model.h"
#include "server/hosted/placement.h"
#include "server/rpc/calls_under_way.h"
#include "server/services/expectation.h"
#include "server/services/pages.h"
#include "server/services/stopwatch.h"
#include "server/services/train_plan.h"
#include "server/services/train_run.h"

namespace gluond::server {
namespace {

// NOT_FOUND: an output that the model does not have.
absl::Status CheckOutputs(const google::protobuf::RepeatedPtrField<std::string>& wanted, const Model& model) {
  absl::flat_hash_set<absl::string_view> known;
  for (const ModelOutput& output : model.outputs()) known.insert(output.name);
  const auto unknown =
      std::find_if_not(wanted.begin(), wanted.end(), [&](const std::string& name) { return known.contains(name); });
  if (unknown == wanted.end()) return absl::OkStatus();
  const std::vector<std::string> names(known.begin(), known.end());
  return NotFound("the model has no output '", Excerpt(*unknown), "'", DidYouMean(*unknown, names),
                  " (outputs: ", absl::StrJoin(names, ", "), ")");
}

absl::string_view Itself(absl::string_view name) { return name; }

// The parameter of "<parameter>/<state>".
absl::string_view ParameterOf(absl::string_view state) { return state.substr(0, state.rfind('/')); }

// The tensors for whose names `of` gives a wanted one; all where none is named.
NamedTensors Only(const google::protobuf::RepeatedPtrField<std::string>& wanted, NamedTensors tensors,
                  absl::string_view (*of)(absl::string_view) = &Itself) {
  if (wanted.empty()) return tensors;
  const absl::flat_hash_set<absl::string_view> names(wanted.begin(), wanted.end());
  std::erase_if(tensors, [&](const NamedTensor& tensor) { return !names.contains(of(tensor.name)); });
  return tensors;
}

// Answers what a call has trained: a step or several, `batch_size` rows each but for the last.
template <class CallType>
auto AnswerOf(const CallType& call, const HostedModelPtr& hosted, int64_t batch_size, int64_t begin) {
  const auto watch = Stopwatch::Start(call.runner(), hosted->model());
  return [call, batch_size, begin, watch](const StepReport& report) {
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
}

// Takes the steps of models by whoever trains them: this server, or the group that it leads. Thread-safe.
class Stepper {
 public:
  // The model whose steps are taken, and the wishes of the call.
  struct Of {
    HostedModelPtr hosted;
    std::shared_ptr<Trainer> trainer;
    ScopedCondition::Condition condition;  // Null: none. The first step of several has it.
    std::shared_ptr<Cancellation> cancellation;
  };

  // `group`: the one that the server leads; null: none. Both outlive this, and `calls` the group.
  Stepper(Group* group, const CallsUnderWay& calls) : group_(group), calls_(calls) {}

  // Whether the group takes the model's steps. Without a group this server takes them alone: a checkpoint has brought the model.
  bool IsGroups(const HostedModel& hosted) const { return group_ != nullptr && hosted.virtual_shards().has_value(); }

  // A step on one batch. `divisor`: that of gradients; 0: the batch's rows. `done` is called once, on any thread.
  void TrainStep(Of of, NamedTensors inputs, int64_t divisor, Trainer::OnStep done) const {
    if (!IsGroups(*of.hosted)) {
      return Change(of, std::move(done), [&](Trainer::OnStep counted) {
        of.trainer->TrainStep(std::move(inputs), {.batch_size = divisor}, of.cancellation, std::move(counted));
      });
    }
    const bool is_other = divisor != 0 && (inputs.empty() || inputs.front().tensor.shape().ndim() == 0 ||
                                           divisor != inputs.front().tensor.shape()[0]);
    if (is_other) return done(Invalid("batch_size is ", divisor, "; a group divides by the batch's rows: leave batch_size out"));
    group_->TrainStep(ToGroup(std::move(of), std::move(inputs)), std::move(done));
  }
  // As Trainer::TrainSteps, on the rows that `steps` names.
  void TrainSteps(Of of, DatasetSteps steps, Trainer::OnStep done) const {
    if (IsGroups(*of.hosted)) return group_->TrainSteps(ToGroup(std::move(of), {}), std::move(steps), std::move(done));
    Change(of, std::move(done),
           [&](Trainer::OnStep counted) { of.trainer->TrainSteps(std::move(steps), of.cancellation, std::move(counted)); });
  }

  // FAILED_PRECONDITION: a group trains the model, and computes gradients in whole steps alone.
  absl::Status CheckByHand(const HostedModel& hosted) const {
    if (!IsGroups(hosted)) return absl::OkStatus();
    return FailedPrecondition("model '", hosted.model().name(),
                              "' is trained by a group, which takes whole steps: call TrainStep or ",
                              "Train, or define the model without placement.group");
  }

 private:
  GroupStep ToGroup(Of of, NamedTensors inputs) const {
    // The step may wait for other servers, for ever: a server that stops does not wait with it.
    auto wanted = [&calls = calls_, cancellation = of.cancellation] {
      return calls.draining() ? Draining() : cancellation->Check();
    };
    return {std::move(of.hosted),    std::move(of.trainer), std::move(inputs),
            std::move(of.condition), std::move(wanted),     std::move(of.cancellation)};
  }
  template <class Begin>
  static void Change(const Of& of, Trainer::OnStep done, const Begin& begin) {
    const ScopedCondition condition(of.condition);
    HostedModel::Change<absl::StatusOr<StepReport>>(of.hosted, HostedModel::Counts::kVersion, begin, std::move(done));
  }

  Group* const group_;
  const CallsUnderWay& calls_;
};

class TrainingService final : public RawService {
 public:
  TrainingService(Runner& runner, Devices& devices, Models& models, Datasets& datasets, StoredDatasets* stored, Group* group)
      : RawService(runner, "gluond.v1.TrainingService"),
        devices_(devices),
        models_(models),
        datasets_(datasets),
        stored_(stored),
        stepper_(group, runner.calls) {
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

 private:
  using TrainStepCall = Call<v1::TrainStepRequest, v1::TrainStepResponse>;
  void CreateTrainer(Call<v1::CreateTrainerRequest, v1::CreateTrainerResponse> call) {
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
    FINISH_IF_ERROR(call, CheckExpectedVersion(call, hosted));
    ASSIGN_OR_FINISH(call, TrainerOptions options, TrainerOptionsFromProto(call.request()));
    absl::StatusOr<std::shared_ptr<Trainer>> made;
    {
      const CancellationScope scope(call.cancellation().get());
      made = Trainer::Create(hosted->model_ptr(), std::move(options));
    }
    ASSIGN_OR_FINISH(call, const std::shared_ptr<Trainer> trainer, std::move(made));
    FINISH_IF_ERROR(call, CheckGroupTrains(*hosted, *trainer));
    FINISH_IF_ERROR(call, hosted->SetTrainer(trainer, call.request().replace()));
    DescribeTrainer(*hosted, *trainer, call.response().mutable_trainer());
    call.Finish();
  }

  void GetTrainer(Call<v1::GetTrainerRequest, v1::GetTrainerResponse> call) {
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
    ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
    DescribeTrainer(*hosted, *trainer, call.response().mutable_trainer());
    call.Finish();
  }

  void SetLearningRate(Call<v1::SetLearningRateRequest, v1::SetLearningRateResponse> call) {
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
    ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
    const auto set = [trainer, rate = call.request().learning_rate()] { return trainer->SetLearningRate(rate); };
    Change<absl::Status>(
        call, hosted, HostedModel::Counts::kRate,
        [&](auto done) { hosted->model().strand().Do<absl::Status>(set, std::move(done)); },  // In order with steps.
        [call] { call.Finish(); });
  }

  void UploadDataset(Call<v1::UploadDatasetRequest, v1::UploadDatasetResponse> call) {
    HostedDataset::Stored done;
    if (stored_ != nullptr) done = [call](const absl::Status& status) { call.Finish(status); };
    HostedDatasetPtr to_store;
    ASSIGN_OR_FINISH(call, const HostedDataset::Next next,
                     datasets_.Upload(call.request(), call.attachments(), *devices_.host().allocator, std::move(done), &to_store,
                                      &call.response()));
    if (next == HostedDataset::Next::kAnswer) call.Finish();
    if (next == HostedDataset::Next::kStore) stored_->Save(call.request().dataset(), std::move(to_store));
  }

  void ListDatasets(Call<v1::ListDatasetsRequest, v1::ListDatasetsResponse> call) {
    const auto name_of = [](const auto& each) { return each.first; };
    FinishWithNames(call, datasets_.List(), name_of,
                    [&call](const auto& each) { each.second->Describe(each.first, call.response().add_datasets()); });
  }

  void DeleteDataset(Call<v1::DeleteDatasetRequest, v1::DeleteDatasetResponse> call) {
    const v1::DeleteDatasetRequest& request = call.request();
    const std::optional<std::string> expected = ExpectedEtag(request);
    if (stored_ != nullptr) {
      return stored_->Delete(request.dataset(), expected, [call](const absl::Status& status) { call.Finish(status); });
    }
    if (!expected.has_value()) return call.Finish(datasets_.Remove(request.dataset()).status());
    ASSIGN_OR_FINISH(call, const HostedDatasetPtr hosted, datasets_.Expect(request.dataset(), *expected));
    call.Finish(datasets_.Remove(request.dataset(), hosted));
  }

  void GetSequence(Call<v1::GetSequenceRequest, v1::GetSequenceResponse> call) {
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

  // By hand.

  void Forward(Call<v1::ForwardRequest, v1::ForwardResponse> call) {
    const v1::ForwardRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    if (request.training()) FINISH_IF_ERROR(call, stepper_.CheckByHand(*hosted));
    Model& model = hosted->model();
    FINISH_IF_ERROR(call, CheckOutputs(request.outputs(), model));
    ASSIGN_OR_FINISH(call, NamedTensors inputs,
                     DecodeTensors("input", request.inputs(), call.attachments(), hosted->host_allocator()));
    const auto watch = Stopwatch::Start(runner(), model);
    const Mode mode = request.training() ? Mode::kTrain : Mode::kPredict;
    MutexLock lock(hosted->recording_mu());  // Recordings are numbered as they are queued.
    const uint64_t recording = request.training() ? ++hosted->last_recording() : 0;
    Change<absl::StatusOr<NamedTensors>>(
        call, hosted, request.training() ? HostedModel::Counts::kVersion : HostedModel::Counts::kNothing,  // Running means.
        [&](auto done) { model.Forward(std::move(inputs), mode, call.cancellation(), std::move(done)); },
        [call, watch, recording](NamedTensors outputs) {
          if (recording != 0) call.Leaves();
          call.response().set_recording(recording);
          watch->Stop(call.response().mutable_timing());
          call.FinishWith(Only(call.request().outputs(), std::move(outputs)),
                          ReplyForm(call.request().encoding(), call.request().inputs()), call.response().mutable_outputs());
        });
  }

  void Backward(Call<v1::BackwardRequest, v1::BackwardResponse> call) {
    const v1::BackwardRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    FINISH_IF_ERROR(call, stepper_.CheckByHand(*hosted));
    Model& model = hosted->model();
    for (const std::string& name : request.gradients()) FINISH_IF_ERROR(call, model.parameters().Get(name).status());
    ASSIGN_OR_FINISH(call, NamedTensors heads,
                     DecodeTensors("head gradient", request.head_gradients(), call.attachments(), hosted->host_allocator()));
    const auto watch = Stopwatch::Start(runner(), model);
    MutexLock lock(hosted->recording_mu());
    if (request.has_recording() && request.recording() != hosted->last_recording()) {
      return call.Finish(FailedPrecondition("the last recording is ", hosted->last_recording(), ", not ", request.recording(),
                                            "; call Forward with `training` again"));
    }
    std::vector<std::string> names(request.gradients().begin(), request.gradients().end());
    Change<absl::StatusOr<BackwardReport>>(
        call, hosted, HostedModel::Counts::kNothing,
        [&](auto done) { model.Backward(std::move(heads), std::move(names), call.cancellation(), std::move(done)); },
        [call, watch](BackwardReport report) {
          call.Leaves();
          watch->Stop(call.response().mutable_timing());
          call.FinishWith(std::move(report.gradients), ReplyForm(call.request().encoding(), call.request().head_gradients()),
                          call.response().mutable_gradients());
        });
  }

  void Step(Call<v1::StepRequest, v1::StepResponse> call) {
    const v1::StepRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    FINISH_IF_ERROR(call, stepper_.CheckByHand(*hosted));
    ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
    if (request.batch_size() < 1) {
      return call.Finish(Invalid("batch_size is ", request.batch_size(), "; want 1 or more: gradients are divided by it"));
    }
    const auto watch = Stopwatch::Start(runner(), hosted->model());
    Change<absl::StatusOr<StepReport>>(
        call, hosted, HostedModel::Counts::kVersion,
        [&](auto done) { trainer->Step(request.batch_size(), request.ignore_stale_grad(), call.cancellation(), std::move(done)); },
        [call, trainer, watch](const StepReport& report) {
          call.Settles();
          ToProto(report, call.response().mutable_report());
          watch->Stop(call.response().mutable_timing());
          call.Finish();
        });
  }

  void ZeroGradients(Call<v1::ZeroGradientsRequest, v1::ZeroGradientsResponse> call) {
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
    // A group's members are sent the model again after an edit.
    const auto counts = GroupHasSums(*hosted) ? HostedModel::Counts::kEdit : HostedModel::Counts::kNothing;
    Change<absl::Status>(
        call, hosted, counts, [&](auto done) { hosted->model().ZeroGradients(std::move(done)); }, [call] { call.Finish(); });
  }

  void GetGradients(Call<v1::GetGradientsRequest, v1::GetGradientsResponse> call) {
    const v1::GetGradientsRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    std::vector<std::string> names(request.names().begin(), request.names().end());
    hosted->model().GetGradients(std::move(names), call.Then([call, hosted](NamedTensors gradients) {
      call.FinishWith(std::move(gradients), ReplyForm(call.request().encoding()), call.response().mutable_gradients());
    }));
  }

  // Everything at once.

  void TrainStep(TrainStepCall call) {
    const v1::TrainStepRequest& request = call.request();
    FINISH_IF_ERROR(call, CheckSteps(request));
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
    if (request.has_rows()) {
      ASSIGN_OR_FINISH(call, std::shared_ptr<const Dataset> dataset, datasets_.Committed(request.rows().dataset()));
      const Weight weight = WeightOfOrder(request.rows(), *dataset);
      return runner().dispatch.Run(weight, [this, call, hosted, trainer, dataset] { TrainOnRows(call, hosted, trainer, dataset); });
    }
    ASSIGN_OR_FINISH(call, NamedTensors inputs,
                     DecodeTensors("input", request.inputs(), call.attachments(), hosted->host_allocator()));
    stepper_.TrainStep({hosted, trainer, ExpectedVersion(call, hosted), call.cancellation()}, std::move(inputs),
                       request.batch_size(), call.Then(AnswerOf(call, hosted, /*batch_size=*/0, /*begin=*/-1)));
  }

  void TrainOnRows(TrainStepCall call, const HostedModelPtr& hosted, const std::shared_ptr<Trainer>& trainer,
                   const std::shared_ptr<const Dataset>& dataset) {
    const v1::TrainStepRequest& request = call.request();
    DatasetSteps steps;
    ASSIGN_OR_FINISH(call, steps.rows, SelectRows(request.rows(), *dataset, hosted->host_allocator()));
    const bool is_range = request.rows().indices().empty();
    if (is_range && !request.has_batch_size()) return call.Finish(Invalid("a range of rows needs a batch_size"));
    const int64_t count = steps.rows.Size();
    steps.batch_size = request.has_batch_size() ? std::min(request.batch_size(), count) : count;
    const int64_t whole = count / steps.batch_size;
    steps.steps = request.drop_last() || count % steps.batch_size == 0 ? whole : whole + 1;
    if (request.drop_last() && request.batch_size() > count) steps.steps = 0;
    if (request.has_steps()) steps.steps = std::min(steps.steps, request.steps());
    if (steps.steps == 0) {
      return call.Finish(Invalid("the ", count, " rows make no batch of ", request.batch_size(), "; leave `drop_last` out"));
    }
    steps.dataset = dataset;
    steps.keep_last = !request.drop_last();
    const auto answer = AnswerOf(call, hosted, steps.batch_size, is_range ? request.rows().begin() : -1);
    stepper_.TrainSteps({hosted, trainer, ExpectedVersion(call, hosted), call.cancellation()}, std::move(steps), call.Then(answer));
  }

  void Evaluate(Call<v1::EvaluateRequest, v1::EvaluateResponse> call) {
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

  void Train(TrainRun::TrainCall call) {
    const std::string& name = call.request().model();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(name));
    ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
    ASSIGN_OR_FINISH(call, TrainPlan plan, ToTrainPlan(call.request(), *trainer, datasets_));
    const HostedModel* const key = hosted.get();
    // Nothing breaks a slice off that is computed here. A group's may wait for other servers, for ever.
    const auto cancellation = stepper_.IsGroups(*hosted) ? call.cancellation() : nullptr;
    const auto take_steps = [this, hosted, trainer, cancellation](ScopedCondition::Condition condition, DatasetSteps steps,
                                                                  Trainer::OnStep done) {
      stepper_.TrainSteps({hosted, trainer, std::move(condition), cancellation}, std::move(steps), std::move(done));
    };
    const auto over = [this, key] {
      MutexLock lock(trainings_mu_);
      trainings_.erase(key);
    };
    const auto run = std::make_shared<TrainRun>(runner(), models_, call, hosted, trainer, std::move(plan), take_steps, over);
    bool is_first;
    {
      MutexLock lock(trainings_mu_);
      is_first = trainings_.try_emplace(key, run).second;
    }
    if (is_first) return run->Start();
    call.Finish(
        WithInfo(FailedPrecondition("a Train of model '", name, "' is under way; wait for its end, or end it by CancelTraining"),
                 reason::kTrainingUnderWay));
  }

  void CancelTraining(Call<v1::CancelTrainingRequest, v1::CancelTrainingResponse> call) {
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

  // The state of the optimizer.

  void GetOptimizerState(Call<v1::GetOptimizerStateRequest, v1::GetOptimizerStateResponse> call) {
    const v1::GetOptimizerStateRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
    for (const std::string& name : request.names()) {
      FINISH_IF_ERROR(call, hosted->model().parameters().Get(name).status());
    }
    trainer->Snapshot(call.Then([call, hosted, trainer](std::pair<ModelState, TrainerState> state) {
      call.response().set_step(state.second.step);
      call.FinishWith(Only(call.request().names(), std::move(state.second.states), &ParameterOf),
                      ReplyForm(call.request().encoding()), call.response().mutable_states());
    }));
  }

  void SetOptimizerState(Call<v1::SetOptimizerStateRequest, v1::SetOptimizerStateResponse> call) {
    const v1::SetOptimizerStateRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
    ASSIGN_OR_FINISH(call, NamedTensors values,
                     DecodeTensors("state", request.states(), call.attachments(), hosted->host_allocator()));
    const std::optional<int64_t> step = request.has_step() ? std::optional<int64_t>(request.step()) : std::nullopt;
    Change<absl::Status>(
        call, hosted, HostedModel::Counts::kEdit, [&](auto done) { trainer->SetStates(std::move(values), step, std::move(done)); },
        [call, trainer] { call.Finish(); });
  }

  Devices& devices_;
  Models& models_;
  Datasets& datasets_;
  StoredDatasets* const stored_;
  const Stepper stepper_;
  Mutex trainings_mu_;
  // The trainings under way, by model.
  absl::flat_hash_map<const HostedModel*, std::weak_ptr<TrainRun>> trainings_ ABSL_GUARDED_BY(trainings_mu_);
};

}  // namespace

std::unique_ptr<RawService> NewTrainingService(Runner& runner, Devices& devices, Models& models, Datasets& datasets,
                                               StoredDatasets* stored, Group* group) {
  return std::make_unique<TrainingService>(runner, devices, models, datasets, stored, group);
}

}  // namespace gluond::server
