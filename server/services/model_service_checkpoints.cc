// ModelService's methods on checkpoints.

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/nn/node_spec.h"
#include "server/hosted/describe_model.h"
#include "server/hosted/owned_name.h"
#include "server/services/expectation.h"
#include "server/services/model_service.h"
#include "server/services/pages.h"

namespace gluond::server {
namespace {

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

}  // namespace

absl::StatusOr<CheckpointStore*> ModelService::NeedStore() const {
  if (store_ != nullptr) return store_;
  return absl::FailedPreconditionError("this server keeps no checkpoints; start it with --store_dir=FOLDER");
}

void ModelService::SaveCheckpoint(Call<v1::SaveCheckpointRequest, v1::SaveCheckpointResponse> call) {
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
void ModelService::LoadCheckpoint(LoadCall call) {
  const v1::LoadCheckpointRequest& request = call.request();
  ASSIGN_OR_FINISH(call, CheckpointStore * store, NeedStore());
  FINISH_IF_ERROR(call, CheckOwnedName(&runner().tenants, "checkpoint", request.checkpoint()));
  const std::string name = request.model().empty() ? request.checkpoint() : request.model();
  ASSIGN_OR_FINISH(call, Place * place, devices_.Find(request.device()));
  const CustomHostPtr custom_host = devices_.custom_host_of(name);
  const ScopedCustomHost host(custom_host);
  ASSIGN_OR_FINISH(call, Checkpoint checkpoint, store->Load(request.checkpoint(), *devices_.host().allocator));
  if (request.parameters_only()) checkpoint.trainer.reset();
  const auto kept = std::make_shared<Checkpoint>(std::move(checkpoint));
  // The disk's threads read. Making a model takes long, and others wait to read.
  runner().dispatch.Run(Weight::kHeavy, [this, call, place, kept] { TakeUp(call, place, kept); });
}

void ModelService::TakeUp(LoadCall call, Place* place, std::shared_ptr<Checkpoint> checkpoint) {
  const v1::LoadCheckpointRequest& request = call.request();
  const std::string name = request.model().empty() ? request.checkpoint() : request.model();
  absl::StatusOr<HostedModelPtr> existing = models_.Use(name);
  if (existing.ok()) {
    FINISH_IF_ERROR(call, CheckExpectedVersion(call, *existing));
    if (SameGraph((*existing)->model().definition(), checkpoint->model.definition)) {
      return RestoreInto(call, *std::move(existing), std::move(*checkpoint), /*is_new=*/false);
    }
    if (!request.replace()) {
      return call.Finish(absl::FailedPreconditionError(
          absl::StrCat("model '", name, "' has another graph than the checkpoint; set `replace`, or name another model")));
    }
  }
  HostedModelPtr replaced;
  if (request.call().has_expected_version() && existing.ok()) replaced = *std::move(existing);
  MakeAndRestore(call, place, std::move(checkpoint), std::move(replaced));
}

void ModelService::MakeAndRestore(LoadCall call, Place* place, std::shared_ptr<Checkpoint> checkpoint, HostedModelPtr replaced) {
  const v1::LoadCheckpointRequest& request = call.request();
  const std::string name = request.model().empty() ? request.checkpoint() : request.model();
  FINISH_IF_ERROR(call, call.cancellation()->Check());
  FINISH_IF_ERROR(call, models_.CanAdd(name, request.replace()));
  absl::StatusOr<HostedModelPtr> hosted = HostedModel::Create(name, checkpoint->model.definition, checkpoint->model.random.seed,
                                                              *place, devices_.host(), runner().limits.max_model_bytes);
  if (Again(hosted.status(), [this, call, place, checkpoint, replaced] { MakeAndRestore(call, place, checkpoint, replaced); }))
    return;
  FINISH_IF_ERROR(call, hosted.status());
  RestoreInto(call, *std::move(hosted), std::move(*checkpoint), /*is_new=*/true, replaced);
}

void ModelService::RestoreInto(LoadCall call, HostedModelPtr hosted, Checkpoint checkpoint, bool is_new, HostedModelPtr replaced) {
  if (call.request().parameters_only()) checkpoint.model.random.seed = hosted->model().options().seed;
  const ScopedCondition condition(is_new ? nullptr : ExpectedVersion(call, hosted));
  hosted->Restore(std::move(checkpoint), [this, call, hosted, is_new, replaced](const absl::Status& status) {
    if (!status.ok() || !is_new) return FinishLoad(call, hosted, status);
    AddModel(call, hosted, replaced, call.request().replace(),
             [this, call, hosted](const absl::Status& added) { FinishLoad(call, hosted, added); });
  });
}

void ModelService::FinishLoad(LoadCall call, const HostedModelPtr& hosted, const absl::Status& status) {
  call.Settles();
  if (status.ok()) DescribeModel(*hosted, /*parameters=*/true, /*graph=*/false, call.response().mutable_model());
  call.Finish(status);
}

void ModelService::ListCheckpoints(Call<v1::ListCheckpointsRequest, v1::ListCheckpointsResponse> call) {
  ASSIGN_OR_FINISH(call, CheckpointStore * store, NeedStore());
  ASSIGN_OR_FINISH(call, std::vector<CheckpointSummary> saved, store->List());
  KeepThoseWithin(call.reach(), &saved, [](const auto& each) { return each.name; });
  ASSIGN_OR_FINISH(call, const Page page, PageOf(call.request(), saved, [](const auto& each) { return each.name; }));
  for (size_t i = page.begin; i < page.end; ++i) CheckpointToProto(saved[i], call.response().add_checkpoints());
  call.response().set_next_page_token(page.next);
  call.Finish();
}

void ModelService::DeleteCheckpoint(Call<v1::DeleteCheckpointRequest, v1::DeleteCheckpointResponse> call) {
  ASSIGN_OR_FINISH(call, CheckpointStore * store, NeedStore());
  FINISH_IF_ERROR(call, CheckOwnedName(&runner().tenants, "checkpoint", call.request().checkpoint()));
  FINISH_IF_ERROR(call, store->Delete(call.request().checkpoint(), ExpectedEtag(call.request())));
  call.Finish();
}

}  // namespace gluond::server
