// ServingService publishes versions of models, and routes requests to them.

#include "server/services/services.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/store/checkpoint.h"
#include "gluond/v1/serving.pb.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"
#include "server/services/expectation.h"
#include "server/services/pages.h"
#include "server/services/version_watchers.h"
#include "server/serving/options_codec.h"
#include "server/serving/publisher.h"

namespace gluond::server {
namespace {

class ServingService final : public RawService {
 public:
  ServingService(Runner& runner, Devices& devices, Models& models, Publisher& publisher, CheckpointStore* store,
                 ServingReload reload)
      : RawService(runner, "gluond.v1.ServingService"),
        devices_(devices),
        models_(models),
        publisher_(publisher),
        store_(store),
        reload_(std::move(reload)),
        watchers_(std::make_shared<VersionWatchers>(runner, publisher)) {
    Add("PublishModel", this, &ServingService::PublishModel);
    Add("ListVersions", this, &ServingService::ListVersions);
    Add("RouteVersions", this, &ServingService::RouteVersions);
    Add("RetireVersion", this, &ServingService::RetireVersion);
    Add("ReloadServing", this, &ServingService::ReloadServing);
    AddStream<v1::FollowVersionsRequest>("FollowVersions", this, &ServingService::FollowVersions);
    Add("ReadVersion", this, &ServingService::ReadVersion);
  }

  void Sweep() override { watchers_->Sweep(); }

 private:
  using PublishCall = Call<v1::PublishModelRequest, v1::PublishModelResponse>;
  void PublishModel(PublishCall call) {
    const v1::PublishModelRequest& request = call.request();
    VersionFacts facts;
    ASSIGN_OR_FINISH(call, facts.options, FromProto(request.options()));
    if (request.model().empty() == request.checkpoint().empty()) {
      return call.Finish(InField("model", Invalid("want a `model` or a `checkpoint` to publish, one of them")));
    }
    if (!request.checkpoint().empty()) {
      runner().dispatch.Run(Weight::kDisk, [this, call, facts] { PublishCheckpoint(call, facts); });
      return;
    }
    ASSIGN_OR_FINISH(call, HostedModelPtr hosted, models_.Use(request.model()));
    if (facts.options.device.empty()) facts.options.device = hosted->place().device.ToString();
    facts.source = request.model();
    facts.client = request.call().client_id();
    facts.number = request.call().sequence();
    const ScopedCondition condition(ExpectedVersion(call, hosted));
    // The version is that of the values: both are read on the strand.
    using Held = absl::StatusOr<std::pair<ModelState, uint64_t>>;
    const auto publish = call.Then([this, call, facts, hosted](std::pair<ModelState, uint64_t> held) mutable {
      facts.source_version = held.second;
      const auto state = std::make_shared<ModelState>(std::move(held.first));
      hosted->model().BringToHost({&state->parameters}, call.Then([this, call, facts, hosted, state] {
        Publish(call, std::move(*state), facts, hosted->restored_version());
      }));
    });
    hosted->model().strand().Do<Held>([hosted] { return Held(std::pair(hosted->model().SnapshotNow(), hosted->version())); },
                                      publish);
  }

  void PublishCheckpoint(PublishCall call, VersionFacts facts) {
    const v1::PublishModelRequest& request = call.request();
    if (store_ == nullptr) {
      return call.Finish(
          absl::FailedPreconditionError("this server keeps no checkpoints; start it with --store_dir=FOLDER, or publish a model"));
    }
    facts.source = request.checkpoint();
    FINISH_IF_ERROR(call, CheckOwnedName(&runner().tenants, "checkpoint", request.checkpoint()));
    const ScopedCustomHost host(devices_.custom_host_of(request.checkpoint()));
    ASSIGN_OR_FINISH(call, Checkpoint checkpoint, store_->Load(request.checkpoint(), *devices_.host().allocator));
    Publish(call, std::move(checkpoint.model), std::move(facts));
  }

  void Publish(PublishCall call, ModelState state, VersionFacts facts, std::optional<uint64_t> rewound_to = {}) {
    const v1::PublishModelRequest& request = call.request();
    const std::string name = request.served().empty() ? facts.source : request.served();
    publisher_.Publish(name, std::move(state), std::move(facts), {request.labels().begin(), request.labels().end()},
                       call.cancellation(), call.Then([call](v1::ServedVersion version) {
                         *call.response().mutable_version() = std::move(version);
                         call.Finish();
                       }),
                       rewound_to);
  }

  void ListVersions(Call<v1::ListVersionsRequest, v1::ListVersionsResponse> call) {
    VersionTable::Versions list = publisher_.table().List(call.request().served());
    KeepThoseWithin(call.reach(), &list, [](const auto& each) { return each.served(); });
    // Names of pages are sorted as the list is.
    const auto key = [](const v1::ServedVersion& each) {
      return absl::StrCat(each.served(), "\n", absl::StrFormat("%020d", each.version()));
    };
    FinishWithPage(call, std::move(list), key,
                   [&call](v1::ServedVersion& each) { *call.response().add_versions() = std::move(each); });
  }

  void RouteVersions(Call<v1::RouteVersionsRequest, v1::RouteVersionsResponse> call) {
    const v1::RouteVersionsRequest& request = call.request();
    VersionTable::Change change;
    change.labels.insert(request.labels().begin(), request.labels().end());
    change.weights.insert(request.weights().begin(), request.weights().end());
    change.clear_weights = request.clear_weights();
    change.expected_etag = ExpectedEtag(request);
    publisher_.Route(request.served(), std::move(change), call.Then([call](VersionTable::Versions versions) {
      for (v1::ServedVersion& version : versions) *call.response().add_versions() = std::move(version);
      call.Finish();
    }));
  }

  void RetireVersion(Call<v1::RetireVersionRequest, v1::RetireVersionResponse> call) {
    const v1::RetireVersionRequest& request = call.request();
    publisher_.Retire(request.served(), request.version(), ExpectedEtag(request),
                      [call](const absl::Status& status) { call.Finish(status); });
  }

  void ReloadServing(Call<v1::ReloadServingRequest, v1::ReloadServingResponse> call) {
    if (reload_ == nullptr) {
      return call.Finish(absl::FailedPreconditionError(
          "this server has no file of what it serves; start it with --serve=FILE, or publish a model"));
    }
    reload_(call.Then([this, call](const Declaration&) {
      for (v1::ServedVersion& version : publisher_.table().List()) {
        if (version.declared()) *call.response().add_versions() = std::move(version);
      }
      call.Finish();
    }));
  }

  std::shared_ptr<Stream> FollowVersions(Stream::Opening opening) { return watchers_->Watch(opening); }

  void ReadVersion(Call<v1::ReadVersionRequest, v1::ReadVersionResponse> call) {
    const v1::ReadVersionRequest& request = call.request();
    ASSIGN_OR_FINISH(call, const std::unique_ptr<ReadableFile> file,
                     publisher_.OpenFile(request.served(), request.version(), request.checksum(), request.file()));
    if (request.offset() < 0 || request.offset() > file->size()) {
      return call.Finish(InField(
          "offset", Invalid("offset is ", request.offset(), ", and the file '", request.file(), "' has ", file->size(), " bytes")));
    }
    const int64_t bytes = std::min(runner().limits.max_chunk_bytes(), file->size() - request.offset());
    Reservation meanwhile(Budget::PartOf(runner().memory));  // Until the reply is charged.
    FINISH_IF_ERROR(call, meanwhile.Grow(bytes));
    std::string data(static_cast<size_t>(bytes), '\0');
    FINISH_IF_ERROR(call, file->Skip(request.offset()));
    FINISH_IF_ERROR(call, file->Read(data.data(), data.size()));
    call.response().set_data(std::move(data));
    call.response().set_size(file->size());
    call.Finish();
  }

  Devices& devices_;
  Models& models_;
  Publisher& publisher_;
  CheckpointStore* const store_;
  const ServingReload reload_;
  const std::shared_ptr<VersionWatchers> watchers_;
};

}  // namespace

std::unique_ptr<RawService> NewServingService(Runner& runner, Devices& devices, Models& models, Publisher& publisher,
                                              CheckpointStore* store, ServingReload reload) {
  return std::make_unique<ServingService>(runner, devices, models, publisher, store, std::move(reload));
}

}  // namespace gluond::server
