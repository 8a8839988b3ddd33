// ServerService: version, devices, limits, uptime (proto/gluond/v1/server.proto).

#include "server/services/services.h"

#include <chrono>
#include <functional>
#include <random>
#include <utility>

#include "gluond/v1/server.pb.h"
#include "server/codec/describe_operator.h"
#include "server/codec/duration.h"
#include "server/hosted/devices.h"
#include "server/start/protocol.h"

namespace gluond::server {
namespace {

uint64_t RandomNumber() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Clients hear of the limits for which the message has a field.
v1::Limits LimitsToProto(const Limits& limits) {
  v1::Limits told;
  for (const LimitFlag& limit : LimitFlags()) {
    const auto* const field = v1::Limits::descriptor()->FindFieldByName(limit.name);
    if (field != nullptr) told.GetReflection()->SetInt64(&told, field, limits.*limit.limit);
  }
  told.set_max_chunk_bytes(limits.max_chunk_bytes());
  return told;
}

class ServerService final : public RawService {
 public:
  ServerService(Runner& runner, const Devices& devices, bool has_store, std::function<int64_t(const Reach&)> count_models)
      : RawService(runner, "gluond.v1.ServerService"),
        devices_(devices),
        has_store_(has_store),
        count_models_(std::move(count_models)),
        limits_(LimitsToProto(runner.limits)),
        incarnation_(RandomNumber()) {
    Add("GetServerInfo", this, &ServerService::GetServerInfo);
  }

 private:
  void GetServerInfo(Call<v1::GetServerInfoRequest, v1::GetServerInfoResponse> call) {
    v1::GetServerInfoResponse& info = call.response();
    info.set_version(kVersion);
    // The bytes that are in use now: all bytes for a caller that reaches everything, else those of the caller's tenant, and
    // none where nobody counts them by tenant.
    const Reach& reach = call.reach();
    const auto tensors = [&reach](const Place& place) {
      if (reach.is_everything()) return place.budget->used();
      return reach.tenant() == nullptr ? 0 : place.budget->UsedBy(*reach.tenant()->group());
    };
    int64_t sum = 0;
    for (const auto& place : devices_.all()) sum += tensors(*place);
    info.set_tensor_bytes(sum);
    for (const Place* place : devices_.offered()) {
      v1::Device* device = info.add_devices();
      device->set_name(place->device.ToString());
      device->set_description(place->description);
      device->set_threads(place->lanes->compute_threads());
      device->set_memory_bytes(place->memory_bytes);
      device->set_tensor_bytes(tensors(*place));
      if (!reach.is_everything()) continue;
      device->set_memory_peak_bytes(place->budget->peak());
      device->set_memory_used_bytes(place->lanes->driver().used_bytes());
    }
    *info.mutable_limits() = limits_;
    const auto uptime = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start_);
    ToProto(uptime, info.mutable_uptime());
    info.set_models(count_models_(reach));
    info.set_has_store(has_store_);
    info.set_incarnation(incarnation_);
    info.set_protocol(kProtocol);
    for (const char* feature : kFeatures) info.add_features(feature);
    info.set_registry_hash(RegistryHash());
    call.Finish();
  }

  const Devices& devices_;
  const bool has_store_;
  const std::function<int64_t(const Reach&)> count_models_;
  const v1::Limits limits_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const uint64_t incarnation_;
};

}  // namespace

std::unique_ptr<RawService> NewServerService(Runner& runner, const Devices& devices, bool has_store,
                                             std::function<int64_t(const Reach&)> count_models) {
  return std::make_unique<ServerService>(runner, devices, has_store, std::move(count_models));
}

}  // namespace gluond::server
