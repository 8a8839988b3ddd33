#include "server/services/model_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/pending_fact.h"
#include "server/codec/definition_codec.h"
#include "server/codec/tensors_codec.h"
#include "server/custom/scope.h"
#include "server/hosted/describe_model.h"
#include "server/hosted/graph_memory.h"
#include "server/services/expectation.h"
#include "server/services/pages.h"

namespace gluond::server {
namespace {

absl::StatusOr<HostedModel::Clock::duration> TtlFromProto(const google::protobuf::Duration& ttl) {
  const double seconds = static_cast<double>(ttl.seconds()) + ttl.nanos() * 1e-9;
  if (seconds > 0 && seconds < 1e9) {
    return std::chrono::duration_cast<HostedModel::Clock::duration>(std::chrono::duration<double>(seconds));
  }
  return absl::InvalidArgumentError(absl::StrCat("ttl is ", seconds, " s; want more than 0 and less than 1e9"));
}

}  // namespace

ModelService::ModelService(Runner& runner, Devices& devices, Models& models, ParameterUploads& uploads, CheckpointStore* store,
                           LiveModels* live)
    : RawService(runner, "gluond.v1.ModelService"),
      devices_(devices),
      models_(models),
      uploads_(uploads),
      store_(store),
      live_(live) {
  Add("DefineModel", this, &ModelService::DefineModel);
  Add("GetModel", this, &ModelService::GetModel);
  Add("ListModels", this, &ModelService::ListModels);
  Add("DeleteModel", this, &ModelService::DeleteModel);
  Add("Predict", this, &ModelService::Predict, &v1::PredictRequest::inputs);
  Add("InitializeParameters", this, &ModelService::InitializeParameters);
  Add("SetParameters", this, &ModelService::SetParameters, &v1::SetParametersRequest::parameters);
  Add("GetParameters", this, &ModelService::GetParameters);
  Add("UploadParameter", this, &ModelService::UploadParameter);
  Add("DownloadParameter", this, &ModelService::DownloadParameter);
  Add("SaveCheckpoint", this, &ModelService::SaveCheckpoint);
  Add("LoadCheckpoint", this, &ModelService::LoadCheckpoint);
  Add("ListCheckpoints", this, &ModelService::ListCheckpoints);
  Add("DeleteCheckpoint", this, &ModelService::DeleteCheckpoint);
}

void ModelService::DefineModel(Call<v1::DefineModelRequest, v1::DefineModelResponse> call) {
  const v1::DefineModelRequest& request = call.request();
  FINISH_IF_ERROR(call, call.cancellation()->Check());
  FINISH_IF_ERROR(call, models_.CanAdd(request.model(), request.replace()));
  FINISH_IF_ERROR(call, CheckHost("DefineModelRequest.host", request.host(), call.reach()));
  HostedModelPtr replaced;
  if (request.call().has_expected_version()) {
    ASSIGN_OR_FINISH(call, replaced, models_.Find(request.model()));
    FINISH_IF_ERROR(call, CheckExpectedVersion(call, replaced));
  }
  ASSIGN_OR_FINISH(call, Place * place, devices_.Find(request.device()));
  Reservation meanwhile(Budget::PartOf(runner().memory));
  const int64_t most = runner().limits.max_graph_nodes;
  FINISH_IF_ERROR(call, meanwhile.Grow(kMakingNodeBytes * std::min<int64_t>(request.graph().nodes_size(), most)));
  const CustomHostPtr custom_host = devices_.custom_host_of(request.model());
  const ScopedCustomHost host(custom_host, request.host());
  ASSIGN_OR_FINISH(call, ModelDefinition definition, DefinitionFromProto(request, most));
  FINISH_IF_ERROR(call, call.cancellation()->Check());
  absl::StatusOr<HostedModelPtr> made = HostedModel::Create(request.model(), std::move(definition), request.seed(), *place,
                                                            devices_.host(), runner().limits.max_model_bytes);
  if (Again(made.status(), [this, call] { DefineModel(call); })) return;
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, std::move(made));
  if (request.has_ttl()) {
    ASSIGN_OR_FINISH(call, const HostedModel::Clock::duration ttl, TtlFromProto(request.ttl()));
    hosted->SetTtl(ttl);
  }
  AddModel(call, hosted, replaced, request.replace(), call.Then([call, hosted] {
    DescribeModel(*hosted, /*parameters=*/true, /*graph=*/false, call.response().mutable_model());
    call.Settles();
    call.Finish();
  }));
}

template <class CallType>
void ModelService::AddModel(CallType call, HostedModelPtr model, const HostedModelPtr& replaced, bool replace,
                            std::function<void(const absl::Status&)> done) {
  const std::string& name = model->model().name();
  if (replaced == nullptr) return done(models_.Add(name, std::move(model), replace));
  if (!replace) return done(models_.CanAdd(name, replace));
  const ScopedCondition condition(ExpectedVersion(call, replaced));
  replaced->model().strand().Do<absl::Status>([this, name, model, replaced] { return models_.Exchange(name, replaced, model); },
                                              std::move(done));
}
template void ModelService::AddModel(LoadCall call, HostedModelPtr model, const HostedModelPtr& replaced, bool replace,
                                     std::function<void(const absl::Status&)> done);

bool ModelService::Again(const absl::Status& status, std::function<void()> work) {
  return AwaitFact(status, [this, work = std::move(work)] { runner().dispatch.Run(Weight::kHeavy, work); });
}

void ModelService::GetModel(Call<v1::GetModelRequest, v1::GetModelResponse> call) {
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
  DescribeModel(*hosted, /*parameters=*/true, call.request().graph(), call.response().mutable_model());
  call.Finish();
}

void ModelService::ListModels(Call<v1::ListModelsRequest, v1::ListModelsResponse> call) {
  auto models = models_.List();
  KeepThoseWithin(call.reach(), &models, [](const auto& each) { return each.first; });
  ASSIGN_OR_FINISH(call, const Page page, PageOf(call.request(), models, [](const auto& each) { return each.first; }));
  for (size_t i = page.begin; i < page.end; ++i) {
    DescribeModel(*models[i].second, /*parameters=*/false, /*graph=*/false, call.response().add_models());
  }
  call.response().set_next_page_token(page.next);
  call.Finish();
}

void ModelService::DeleteModel(Call<v1::DeleteModelRequest, v1::DeleteModelResponse> call) {
  ASSIGN_OR_FINISH(call, const HostedModelPtr hosted, models_.Find(call.request().model()));
  RemoveModel(call, hosted, [this, call](absl::StatusOr<HostedModelPtr> removed) {
    removed.ok() ? ForgetModel(call, *std::move(removed)) : call.Finish(removed.status());
  });
}

void ModelService::RemoveModel(Call<v1::DeleteModelRequest, v1::DeleteModelResponse> call, const HostedModelPtr& hosted,
                               std::function<void(absl::StatusOr<HostedModelPtr>)> done) {
  const std::string& name = call.request().model();
  if (!call.request().call().has_expected_version()) return done(models_.Remove(name));
  const ScopedCondition condition(ExpectedVersion(call, hosted));
  hosted->model().strand().Do<absl::Status>(
      [this, name, hosted] { return models_.Remove(name, hosted); },
      [hosted, done = std::move(done)](const absl::Status& removed) { removed.ok() ? done(hosted) : done(removed); });
}

void ModelService::ForgetModel(Call<v1::DeleteModelRequest, v1::DeleteModelResponse> call, HostedModelPtr hosted) {
  runner().sequences.DropModel(call.request().model());
  // Answered when the calls before it have ended, its live checkpoint is deleted, and its memory is free. A model whose
  // checkpoint cannot be deleted, and would be there again in the next server, is put back.
  Model& model = hosted->model();
  const auto removed = std::make_shared<HostedModelPtr>(std::move(hosted));
  const auto finish = [this, call, removed](const absl::Status& status) {
    if (!status.ok()) models_.Add(call.request().model(), *removed, /*replace=*/false).IgnoreError();
    removed->reset();
    call.Finish(status);
  };
  model.strand().Do<absl::Status>([] { return absl::OkStatus(); },
                                  [this, call, finish](const absl::Status&) {
                                    if (live_ == nullptr) return finish(absl::OkStatus());
                                    live_->Forget(call.request().model(), finish);
                                  });
}

void ModelService::Predict(Call<v1::PredictRequest, v1::PredictResponse> call) {
  const v1::PredictRequest& request = call.request();
  ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
  ASSIGN_OR_FINISH(call, NamedTensors inputs,
                   DecodeTensors("input", request.inputs(), call.attachments(), hosted->host_allocator()));
  std::vector<std::string> outputs(request.outputs().begin(), request.outputs().end());
  const auto answer = call.Then([call, hosted](NamedTensors predicted) {
    call.response().set_version(hosted->version());
    call.FinishWith(std::move(predicted), ReplyForm(call.request().encoding(), call.request().inputs()),
                    call.response().mutable_outputs());
  });
  hosted->model().Predict(std::move(inputs), std::move(outputs), call.cancellation(), answer);
}

}  // namespace gluond::server
