// ModelService: named models: define, describe, set, read and save them, and infer (proto/gluond/v1/model.proto).

#include "server/services/services.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/pending_fact.h"
#include "engine/core/status_macros.h"
#include "engine/nn/initializer.h"
#include "engine/nn/node_spec.h"
#include "engine/runtime/cancellation_scope.h"
#include "gluond/v1/model.pb.h"
#include "server/codec/components.h"
#include "server/codec/definition_codec.h"
#include "server/codec/tensors_codec.h"
#include "server/custom/scope.h"
#include "server/durable/live_models.h"
#include "server/hosted/describe_model.h"
#include "server/hosted/devices.h"
#include "server/hosted/graph_memory.h"
#include "server/hosted/hosted_model.h"
#include "server/hosted/parameter_uploads.h"
#include "server/hosted/placement.h"
#include "server/services/expectation.h"
#include "server/services/explain_program.h"
#include "server/services/pages.h"

namespace gluond::server {
namespace {

absl::StatusOr<HostedModel::Clock::duration> TtlFromProto(const google::protobuf::Duration& ttl) {
  const double seconds = static_cast<double>(ttl.seconds()) + ttl.nanos() * 1e-9;
  if (seconds > 0 && seconds < 1e9) {
    return std::chrono::duration_cast<HostedModel::Clock::duration>(std::chrono::duration<double>(seconds));
  }
  return Invalid("ttl is ", seconds, " s; want more than 0 and less than 1e9");
}

absl::flat_hash_set<std::string> Initialized(const Model& model) {
  absl::flat_hash_set<std::string> names;
  for (const Parameter& parameter : model.parameters().List()) {
    if (parameter.initialized) names.insert(parameter.name);
  }
  return names;
}

void SendChunk(const Call<v1::DownloadParameterRequest, v1::DownloadParameterResponse>& call, HostedModel& hosted,
               const HostedModel::Download& download, uint64_t max_bytes) {
  const v1::DownloadParameterRequest& request = call.request();
  const Tensor& tensor = download.parameter.tensor;
  if (request.offset() > tensor.bytes()) {
    return call.Finish(
        Invalid("offset ", request.offset(), " is beyond the ", tensor.bytes(), " bytes of parameter '", request.parameter(), "'"));
  }
  const uint64_t wanted = request.has_max_bytes() ? std::min(request.max_bytes(), max_bytes) : max_bytes;
  const uint64_t size = std::min<uint64_t>(wanted, tensor.bytes() - request.offset());
  v1::DownloadParameterResponse& response = call.response();
  for (const int64_t dim : tensor.shape()) response.add_shape(dim);
  response.set_dtype(ToProto(tensor.dtype()));
  const Bytes bytes(absl::string_view(tensor.data<char>() + request.offset(), size));
  response.mutable_chunk()->set_offset(request.offset());
  response.mutable_chunk()->set_crc32c(bytes.Crc32c());
  response.mutable_chunk()->set_data(call.reply_attachments().Add(grpc::Slice(
      tensor.data<char>() + request.offset(), size, [](void* kept) { delete static_cast<Tensor*>(kept); }, new Tensor(tensor))));
  response.set_total(tensor.bytes());
  response.set_version(download.version);
  hosted.Gave(download, size);
  call.Finish();
}

void CheckpointToProto(const CheckpointSummary& summary, v1::Checkpoint* proto) {
  proto->set_name(summary.name);
  proto->set_step(summary.step);
  proto->set_bytes(summary.bytes);
  proto->mutable_created()->set_seconds(summary.saved_unix_seconds);
  proto->set_has_trainer(summary.has_trainer);
  proto->set_damage(summary.damage);
  proto->set_etag(summary.revision);
}

bool SameGraph(const ModelDefinition& a, const ModelDefinition& b) {
  const auto text = [](const ModelDefinition& definition) {
    std::string out;
    for (const NodeSpec& node : ListNodes(definition.outputs)) {
      absl::StrAppend(&out, node.op, " ", node.name);
      for (const EntrySpec& input : node.inputs) absl::StrAppend(&out, " ", input.node, ":", input.index);
      for (const auto& [key, value] : node.attrs) absl::StrAppend(&out, " ", key, "=", value);
      out += '\n';
    }
    return out;
  };
  return a.output_names == b.output_names && text(a) == text(b);
}

class ModelService final : public RawService {
 public:
  // `store` and `live` are null where nothing can be saved. All outlive the service.
  ModelService(Runner& runner, Devices& devices, Models& models, ParameterUploads& uploads, const VersionTable& served,
               CheckpointStore* store, LiveModels* live)
      : RawService(runner, "gluond.v1.ModelService"),
        devices_(devices),
        models_(models),
        uploads_(uploads),
        served_(served),
        store_(store),
        live_(live) {
    Add("DefineModel", this, &ModelService::DefineModel);
    Add("GetModel", this, &ModelService::GetModel);
    Add("ListModels", this, &ModelService::ListModels);
    Add("DeleteModel", this, &ModelService::DeleteModel);
    Add("Predict", this, &ModelService::Predict, &v1::PredictRequest::inputs);
    Add("Explain", this, &ModelService::Explain);
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

 private:
  using LoadCall = Call<v1::LoadCheckpointRequest, v1::LoadCheckpointResponse>;

  void DefineModel(Call<v1::DefineModelRequest, v1::DefineModelResponse> call) {
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
    ASSIGN_OR_FINISH(call, const std::optional<int64_t> shards, VirtualShards(request.placement(), models_));
    if (shards.has_value()) FINISH_IF_ERROR(call, CheckShardsSuffice(request.block()));
    Reservation meanwhile(Budget::PartOf(runner().memory));
    const int64_t most = runner().limits.max_graph_nodes;
    FINISH_IF_ERROR(call, meanwhile.Grow(kMakingNodeBytes * std::min<int64_t>(request.graph().nodes_size(), most)));
    const ScopedCustomHost host(devices_.custom_host_of(request.model()), request.host());
    absl::StatusOr<HostedModelPtr> made;
    {
      const CancellationScope scope(call.cancellation().get());
      ASSIGN_OR_FINISH(call, ModelDefinition definition, DefinitionFromProto(request, most));
      FINISH_IF_ERROR(call, call.cancellation()->Check());
      made = HostedModel::Create(request.model(), std::move(definition), request.seed(), *place, devices_.host(),
                                 runner().limits.max_model_bytes);
    }
    if (Again(made.status(), [this, call] { DefineModel(call); })) return;
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, std::move(made));
    hosted->SetVirtualShards(shards, /*has_group=*/shards.has_value());
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

  // Shares the model by its name. Where the call expects a version, that is a version of `replaced`. Nothing comes between
  // the look at it and AddModel: both are done in order with the other calls on `replaced`.
  template <class CallType>
  void AddModel(CallType call, HostedModelPtr model, const HostedModelPtr& replaced, bool replace,
                std::function<void(const absl::Status&)> done) {
    const std::string& name = model->model().name();
    if (replaced == nullptr) return done(models_.Add(name, std::move(model), replace));
    if (!replace) return done(models_.CanAdd(name, replace));
    const ScopedCondition condition(ExpectedVersion(call, replaced));
    replaced->model().strand().Do<absl::Status>([this, name, model, replaced] { return models_.Exchange(name, replaced, model); },
                                                std::move(done));
  }

  // Whether `status` waits for a client's answer about its operators: then does `work`, on a worker, when it has come.
  bool Again(const absl::Status& status, std::function<void()> work) {
    return AwaitFact(status, [this, work = std::move(work)] { runner().dispatch.Run(Weight::kHeavy, work); });
  }

  void GetModel(Call<v1::GetModelRequest, v1::GetModelResponse> call) {
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
    DescribeModel(*hosted, /*parameters=*/true, call.request().graph(), call.response().mutable_model());
    call.Finish();
  }

  void ListModels(Call<v1::ListModelsRequest, v1::ListModelsResponse> call) {
    const auto name_of = [](const auto& each) { return each.first; };
    FinishWithNames(call, models_.List(), name_of, [&call](const auto& each) {
      DescribeModel(*each.second, /*parameters=*/false, /*graph=*/false, call.response().add_models());
    });
  }

  void DeleteModel(Call<v1::DeleteModelRequest, v1::DeleteModelResponse> call) {
    const std::string& name = call.request().model();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Find(name));
    if (!call.request().call().has_expected_version()) {
      ASSIGN_OR_FINISH(call, hosted, models_.Remove(name));
      return ForgetModel(call, std::move(hosted));
    }
    // Nothing comes between the look at the version and the removal.
    const ScopedCondition condition(ExpectedVersion(call, hosted));
    hosted->model().strand().Do<absl::Status>([this, name, hosted] { return models_.Remove(name, hosted); },
                                              call.Then([this, call, hosted] { ForgetModel(call, hosted); }));
  }

  void ForgetModel(Call<v1::DeleteModelRequest, v1::DeleteModelResponse> call, HostedModelPtr hosted) {
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

  void Predict(Call<v1::PredictRequest, v1::PredictResponse> call) {
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

  void Explain(Call<v1::ExplainRequest, v1::ExplainResponse> call) {
    FINISH_IF_ERROR(call, call.cancellation()->Check());
    absl::Status explained;
    {
      const CancellationScope scope(call.cancellation().get());
      explained =
          ExplainProgram(call.request(), models_, served_, runner().memory, runner().limits.max_message_bytes, &call.response());
    }
    if (!Again(explained, [this, call] { Explain(call); })) call.Finish(explained);
  }

  // Values.

  void InitializeParameters(Call<v1::InitializeParametersRequest, v1::InitializeParametersResponse> call) {
    const v1::InitializeParametersRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    InitializeOptions options;
    options.force_reinit = request.force_reinit();
    if (request.has_initializer()) {
      ASSIGN_OR_FINISH(call, options.initializer, SpecFromProto(request.initializer(), Initializers()));
      if (options.initializer.type.empty()) options.initializer = InitializeOptions().initializer;
    }
    Model& model = hosted->model();
    auto before = std::make_shared<absl::flat_hash_set<std::string>>();
    const ScopedCondition condition(ExpectedVersion(call, hosted));
    model.strand().Do<absl::Status>(
        [hosted, before, force = options.force_reinit] {
          if (!force) *before = Initialized(hosted->model());
          return absl::OkStatus();
        },
        [](const absl::Status&) {});
    const auto answer = [call, hosted, before] {
      for (const Parameter& parameter : hosted->model().parameters().List()) {
        if (!parameter.initialized) {
          call.response().add_deferred(parameter.name);
        } else if (!before->contains(parameter.name)) {
          call.response().add_initialized(parameter.name);
        }
      }
      call.response().set_version(hosted->version());
      call.Finish();
    };
    Change<absl::Status>(
        call, hosted, HostedModel::Counts::kVersion, [&](auto done) { model.Initialize(options, std::move(done)); }, answer);
  }

  void SetParameters(Call<v1::SetParametersRequest, v1::SetParametersResponse> call) {
    const v1::SetParametersRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    ASSIGN_OR_FINISH(call, NamedTensors values,
                     DecodeTensors("parameter", request.parameters(), call.attachments(), hosted->host_allocator()));
    NamedTensors uploaded;
    for (const std::string& name : request.uploaded()) {
      ASSIGN_OR_FINISH(call, NamedTensor value, uploads_.Complete(request.call().client_id(), *hosted, name));
      uploaded.push_back(std::move(value));
    }
    values.insert(values.end(), uploaded.begin(), uploaded.end());
    Change<absl::Status>(
        call, hosted, HostedModel::Counts::kVersion,
        [&](auto done) { hosted->model().SetParameters(std::move(values), std::move(done)); },
        [this, call, hosted, uploaded = std::move(uploaded)] {
          for (const NamedTensor& value : uploaded) uploads_.Forget(call.request().call().client_id(), *hosted, value);
          call.response().set_version(hosted->version());
          call.Finish();
        });
  }

  void GetParameters(Call<v1::GetParametersRequest, v1::GetParametersResponse> call) {
    const v1::GetParametersRequest& request = call.request();
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    std::vector<std::string> names(request.names().begin(), request.names().end());
    hosted->model().GetParameters(std::move(names), call.Then([call, hosted](NamedTensors values) {
      call.response().set_version(hosted->version());
      call.FinishWith(std::move(values), ReplyForm(call.request().encoding()), call.response().mutable_parameters());
    }));
  }

  void UploadParameter(Call<v1::UploadParameterRequest, v1::UploadParameterResponse> call) {
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(call.request().model()));
    ASSIGN_OR_FINISH(call, const ParameterUploads::Progress progress,
                     uploads_.Receive(call.request(), call.attachments(), *hosted));
    call.response().set_received(progress.received);
    call.response().set_total(progress.total);
    call.Finish();
  }

  void DownloadParameter(Call<v1::DownloadParameterRequest, v1::DownloadParameterResponse> call) {
    const v1::DownloadParameterRequest& request = call.request();
    if (request.has_max_bytes() && request.max_bytes() == 0) {
      return call.Finish(Invalid("max_bytes is 0; want 1 or more, or leave it out"));
    }
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    const auto max_bytes = static_cast<uint64_t>(runner().limits.max_chunk_bytes());
    // The chunks after the first one come from the copy that the first one made.
    const auto kept = request.has_version() ? hosted->FindDownload(request.parameter(), request.version()) : nullptr;
    if (kept != nullptr) return SendChunk(call, *hosted, *kept, max_bytes);
    hosted->model().GetParameters({request.parameter()}, call.Then([call, hosted, max_bytes](NamedTensors values) {
      const uint64_t version = hosted->version();
      if (call.request().has_version() && call.request().version() != version) {
        return call.Finish(FailedPrecondition("the parameters are of version ", version, " now, no longer of ",
                                              call.request().version(), "; begin the download again"));
      }
      auto download = std::make_shared<HostedModel::Download>();
      download->version = version;
      download->parameter = std::move(values[0]);
      hosted->SetDownload(download);
      SendChunk(call, *hosted, *download, max_bytes);
    }));
  }

  // Checkpoints.

  absl::StatusOr<CheckpointStore*> NeedStore() const {
    if (store_ != nullptr) return store_;
    return absl::FailedPreconditionError("this server keeps no checkpoints; start it with --store_dir=FOLDER");
  }

  void SaveCheckpoint(Call<v1::SaveCheckpointRequest, v1::SaveCheckpointResponse> call) {
    const v1::SaveCheckpointRequest& request = call.request();
    ASSIGN_OR_FINISH(call, CheckpointStore * store, NeedStore());
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    const std::string name = request.checkpoint().empty() ? request.model() : request.checkpoint();
    FINISH_IF_ERROR(call, CheckOwnedName(&runner().tenants, "checkpoint", name));
    const auto save = call.Then([this, call, store, name, hosted](Checkpoint checkpoint) {
      const auto kept = std::make_shared<Checkpoint>(std::move(checkpoint));
      runner().dispatch.Run(Weight::kDisk, [call, store, name, kept] {
        ASSIGN_OR_FINISH(call, const CheckpointSummary summary, store->Save(name, *kept, call.request().overwrite()));
        CheckpointToProto(summary, call.response().mutable_checkpoint());
        call.Finish();
      });
    });
    const ScopedCondition condition(ExpectedVersion(call, hosted));
    hosted->Snapshot(save);
  }

  // An existing model of the same graph takes the values over in its place, in order with its other calls. Otherwise a new
  // model is made, filled, and only then shared.
  void LoadCheckpoint(LoadCall call) {
    const v1::LoadCheckpointRequest& request = call.request();
    ASSIGN_OR_FINISH(call, CheckpointStore * store, NeedStore());
    FINISH_IF_ERROR(call, CheckOwnedName(&runner().tenants, "checkpoint", request.checkpoint()));
    const std::string name = request.model().empty() ? request.checkpoint() : request.model();
    ASSIGN_OR_FINISH(call, Place * place, devices_.Find(request.device()));
    const ScopedCustomHost host(devices_.custom_host_of(name));
    ASSIGN_OR_FINISH(call, Checkpoint checkpoint, store->Load(request.checkpoint(), *devices_.host().allocator));
    if (request.parameters_only()) checkpoint.trainer.reset();
    const auto kept = std::make_shared<Checkpoint>(std::move(checkpoint));
    // The disk's threads read. Making a model takes long, and others wait to read.
    runner().dispatch.Run(Weight::kHeavy, [this, call, place, kept] { TakeUp(call, place, kept); });
  }

  void TakeUp(LoadCall call, Place* place, std::shared_ptr<Checkpoint> checkpoint) {
    const v1::LoadCheckpointRequest& request = call.request();
    const std::string name = request.model().empty() ? request.checkpoint() : request.model();
    absl::StatusOr<HostedModelPtr> existing = models_.Use(name);
    if (existing.ok()) {
      FINISH_IF_ERROR(call, CheckExpectedVersion(call, *existing));
      if (SameGraph((*existing)->model().definition(), checkpoint->model.definition)) {
        return RestoreInto(call, *std::move(existing), std::move(*checkpoint), /*is_new=*/false);
      }
      if (!request.replace()) {
        return call.Finish(
            FailedPrecondition("model '", name, "' has another graph than the checkpoint; set `replace`, or name another model"));
      }
    }
    HostedModelPtr replaced;
    if (request.call().has_expected_version() && existing.ok()) replaced = *std::move(existing);
    MakeAndRestore(call, place, std::move(checkpoint), std::move(replaced));
  }

  // `replaced`: the only one that the new model may replace; null: any.
  void MakeAndRestore(LoadCall call, Place* place, std::shared_ptr<Checkpoint> checkpoint, HostedModelPtr replaced) {
    const v1::LoadCheckpointRequest& request = call.request();
    const std::string name = request.model().empty() ? request.checkpoint() : request.model();
    FINISH_IF_ERROR(call, call.cancellation()->Check());
    FINISH_IF_ERROR(call, models_.CanAdd(name, request.replace()));
    absl::StatusOr<HostedModelPtr> hosted = HostedModel::Create(name, checkpoint->model.definition, checkpoint->model.random.seed,
                                                                *place, devices_.host(), runner().limits.max_model_bytes);
    if (Again(hosted.status(), [this, call, place, checkpoint, replaced] { MakeAndRestore(call, place, checkpoint, replaced); }))
      return;
    FINISH_IF_ERROR(call, hosted.status());
    const bool has_group = models_.least_shards().has_value();
    (*hosted)->SetVirtualShards(checkpoint->virtual_shards, has_group);
    const absl::StatusOr<HostedModelPtr> former = models_.Find(name);
    if (former.ok() && (*former)->virtual_shards().has_value()) (*hosted)->SetVirtualShards((*former)->virtual_shards(), has_group);
    RestoreInto(call, *std::move(hosted), std::move(*checkpoint), /*is_new=*/true, replaced);
  }

  void RestoreInto(LoadCall call, HostedModelPtr hosted, Checkpoint checkpoint, bool is_new, HostedModelPtr replaced = nullptr) {
    if (call.request().parameters_only()) checkpoint.model.random.seed = hosted->model().options().seed;
    const ScopedCondition condition(is_new ? nullptr : ExpectedVersion(call, hosted));
    hosted->Restore(std::move(checkpoint), [this, call, hosted, is_new, replaced](const absl::Status& status) {
      if (!status.ok() || !is_new) return FinishLoad(call, hosted, status);
      AddModel(call, hosted, replaced, call.request().replace(),
               [this, call, hosted](const absl::Status& added) { FinishLoad(call, hosted, added); });
    });
  }

  void FinishLoad(LoadCall call, const HostedModelPtr& hosted, const absl::Status& status) {
    call.Settles();
    if (status.ok()) DescribeModel(*hosted, /*parameters=*/true, /*graph=*/false, call.response().mutable_model());
    call.Finish(status);
  }

  void ListCheckpoints(Call<v1::ListCheckpointsRequest, v1::ListCheckpointsResponse> call) {
    ASSIGN_OR_FINISH(call, CheckpointStore * store, NeedStore());
    ASSIGN_OR_FINISH(call, std::vector<CheckpointSummary> saved, store->List());
    const auto name_of = [](const auto& each) { return each.name; };
    FinishWithNames(call, std::move(saved), name_of,
                    [&call](const auto& each) { CheckpointToProto(each, call.response().add_checkpoints()); });
  }

  void DeleteCheckpoint(Call<v1::DeleteCheckpointRequest, v1::DeleteCheckpointResponse> call) {
    ASSIGN_OR_FINISH(call, CheckpointStore * store, NeedStore());
    FINISH_IF_ERROR(call, CheckOwnedName(&runner().tenants, "checkpoint", call.request().checkpoint()));
    call.Finish(store->Delete(call.request().checkpoint(), ExpectedEtag(call.request())));
  }

  Devices& devices_;
  Models& models_;
  ParameterUploads& uploads_;
  const VersionTable& served_;
  CheckpointStore* const store_;
  LiveModels* const live_;
};

}  // namespace

std::unique_ptr<RawService> NewModelService(Runner& runner, Devices& devices, Models& models, ParameterUploads& uploads,
                                            const VersionTable& served, CheckpointStore* store, LiveModels* live) {
  return std::make_unique<ModelService>(runner, devices, models, uploads, served, store, live);
}

}  // namespace gluond::server
