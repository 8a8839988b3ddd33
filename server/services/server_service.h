// ServerService: version, devices, limits, uptime (proto/gluond/v1/server.proto).

#ifndef SERVER_SERVICES_SERVER_SERVICE_H_
#define SERVER_SERVICES_SERVER_SERVICE_H_

#include <chrono>
#include <functional>

#include "gluond/v1/server.pb.h"
#include "server/hosted/devices.h"
#include "server/rpc/raw_service.h"

namespace gluond::server {

class ServerService final : public RawService {
 public:
  // `count_models` tells how many there are now.
  ServerService(Runner& runner, const Devices& devices, bool has_store, std::function<int64_t(const Reach&)> count_models);

 private:
  void GetServerInfo(Call<v1::GetServerInfoRequest, v1::GetServerInfoResponse> call);
  // Fills the bytes that are in use now: all bytes for a caller that reaches everything, else those of the caller's
  // tenant, and none where nobody counts them by tenant.
  void SetBytes(const Reach& reach, v1::GetServerInfoResponse* info) const;

  const Devices& devices_;
  const bool has_store_;
  const std::function<int64_t(const Reach&)> count_models_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const uint64_t incarnation_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_SERVER_SERVICE_H_
