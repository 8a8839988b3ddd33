// TrainingService's methods for training by hand: Forward, Backward, Step, and the gradients between them.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/codec/tensors_codec.h"
#include "server/services/expectation.h"
#include "server/services/stopwatch.h"
#include "server/services/training_service.h"

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
  return absl::NotFoundError(absl::StrCat("the model has no output '", Excerpt(*unknown), "'", DidYouMean(*unknown, names),
                                          " (outputs: ", absl::StrJoin(names, ", "), ")"));
}

NamedTensors Only(const google::protobuf::RepeatedPtrField<std::string>& wanted, NamedTensors tensors) {
  if (wanted.empty()) return tensors;
  const absl::flat_hash_set<absl::string_view> names(wanted.begin(), wanted.end());
  std::erase_if(tensors, [&](const NamedTensor& tensor) { return !names.contains(tensor.name); });
  return tensors;
}

}  // namespace

void TrainingService::Forward(Call<v1::ForwardRequest, v1::ForwardResponse> call) {
  const v1::ForwardRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
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

void TrainingService::Backward(Call<v1::BackwardRequest, v1::BackwardResponse> call) {
  const v1::BackwardRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  Model& model = hosted->model();
  for (const std::string& name : request.gradients()) FINISH_IF_ERROR(call, model.parameters().Get(name).status());
  ASSIGN_OR_FINISH(call, NamedTensors heads,
                   DecodeTensors("head gradient", request.head_gradients(), call.attachments(), hosted->host_allocator()));
  const auto watch = Stopwatch::Start(runner(), model);
  MutexLock lock(hosted->recording_mu());
  if (request.has_recording() && request.recording() != hosted->last_recording()) {
    return call.Finish(absl::FailedPreconditionError(absl::StrCat("the last recording is ", hosted->last_recording(), ", not ",
                                                                  request.recording(), "; call Forward with `training` again")));
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

void TrainingService::Step(Call<v1::StepRequest, v1::StepResponse> call) {
  const v1::StepRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  ASSIGN_OR_FINISH(call, std::shared_ptr<Trainer> trainer, hosted->NeedTrainer());
  if (request.batch_size() < 1) {
    return call.Finish(absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", request.batch_size(), "; want 1 or more: gradients are divided by it")));
  }
  const auto watch = Stopwatch::Start(runner(), hosted->model());
  Change<absl::StatusOr<StepReport>>(
      call, hosted, HostedModel::Counts::kVersion,
      [&](auto done) { trainer->Step(request.batch_size(), request.ignore_stale_grad(), std::move(done)); },
      [call, trainer, watch](const StepReport& report) {
        call.Settles();
        ToProto(report, call.response().mutable_report());
        watch->Stop(call.response().mutable_timing());
        call.Finish();
      });
}

void TrainingService::ZeroGradients(Call<v1::ZeroGradientsRequest, v1::ZeroGradientsResponse> call) {
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
  Change<absl::Status>(
      call, hosted, HostedModel::Counts::kNothing, [&](auto done) { hosted->model().ZeroGradients(std::move(done)); },
      [call] { call.Finish(); });
}

void TrainingService::GetGradients(Call<v1::GetGradientsRequest, v1::GetGradientsResponse> call) {
  const v1::GetGradientsRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  std::vector<std::string> names(request.names().begin(), request.names().end());
  hosted->model().GetGradients(std::move(names), call.Then([call, hosted](NamedTensors gradients) {
    call.FinishWith(std::move(gradients), ReplyForm(call.request().encoding()), call.response().mutable_gradients());
  }));
}

}  // namespace gluond::server
