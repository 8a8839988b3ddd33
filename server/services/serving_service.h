// ServingService publishes versions of models, and routes requests to them.

#ifndef SERVER_SERVICES_SERVING_SERVICE_H_
#define SERVER_SERVICES_SERVING_SERVICE_H_

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/store/checkpoint.h"
#include "gluond/v1/serving.pb.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"
#include "server/rpc/raw_service.h"
#include "server/serving/publisher.h"

namespace gluond::server {

class ServingService final : public RawService {
 public:
  using Reload = std::function<void(std::function<void(absl::StatusOr<Declaration>)> done)>;

  // `store` holds checkpoints; null: there is none. `reload` reads the file --serve again; null: there is none. All outlive
  // this.
  ServingService(Runner& runner, Devices& devices, Models& models, Publisher& publisher, CheckpointStore* store,
                 Reload reload = nullptr);

 private:
  using PublishCall = Call<v1::PublishModelRequest, v1::PublishModelResponse>;

  void PublishModel(PublishCall call);
  void PublishCheckpoint(PublishCall call, VersionFacts facts);
  void Publish(PublishCall call, ModelState state, VersionFacts facts, std::optional<uint64_t> rewound_to = {});
  void ListVersions(Call<v1::ListVersionsRequest, v1::ListVersionsResponse> call);
  void RouteVersions(Call<v1::RouteVersionsRequest, v1::RouteVersionsResponse> call);
  void RetireVersion(Call<v1::RetireVersionRequest, v1::RetireVersionResponse> call);
  void ReloadServing(Call<v1::ReloadServingRequest, v1::ReloadServingResponse> call);

  Devices& devices_;
  Models& models_;
  Publisher& publisher_;
  CheckpointStore* const store_;
  const Reload reload_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_SERVING_SERVICE_H_
