// HealthService tells whether the server serves: the standard grpc.health.v1 (proto/health/v1). gRPC's own would hear of a
// call only when its message has come, and count for nobody.
//
// A client may ask for the server (""), for each service and device by its name, and for a published model. "model:digits"
// serves where an inference that names no version would find one ready. "model:digits:2" and "model:digits:stable" serve
// where that version or label is. (No service, device or model has a name with the colon in this place.) A caller of Check
// hears of a model's change at once, a caller of Watch within a second. A list has the server, services, devices and the
// models of the caller's reach, under the names by which Check knows them: "model:acme/digits". With --health_names=closed,
// a caller that nobody knows may ask for the server only, and others for the names of their reach.

#ifndef SERVER_SERVICES_HEALTH_SERVICE_H_
#define SERVER_SERVICES_HEALTH_SERVICE_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "engine/core/mutex.h"
#include "proto/health/v1/health.pb.h"
#include "server/rpc/raw_service.h"
#include "server/serving/version_table.h"

namespace gluond::server {

class HealthService final : public RawService {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // `served` outlives this.
  HealthService(Runner& runner, const VersionTable& served, bool names_are_closed);

  // Tells watchers of models that have become ready, or are so no more.
  void Sweep() override;

  // There is this service, too. Before the first call.
  void AddService(const std::string& service) { services_.insert(service); }
  // All services, and "", which means the server, are SERVING from now on, or NOT_SERVING for a reason. Watchers are told.
  void SetServing();
  void SetNotServing(absl::string_view reason);
  // Why "" is NOT_SERVING; empty: it is SERVING.
  std::string WhyNotServing() const;
  // This one is NOT_SERVING for good.
  void SetBroken(const std::string& service);

 private:
  class Watcher;

  void Check(Call<grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse> call);
  void List(Call<grpc::health::v1::HealthListRequest, grpc::health::v1::HealthListResponse> call);
  std::shared_ptr<Stream> Watch(Stream::Opening opening);
  // Requires mu_, which all watchers share: clang does not know that.
  void TellAll() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // SERVICE_UNKNOWN: there is none of this name.
  Status StatusOf(const std::string& service) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same for whoever may say what `reach` has.
  Status StatusWithin(const Reach& reach, const std::string& service) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether a caller, whom nobody knows where it is not `known`, may ask. UNAUTHENTICATED.
  absl::Status CheckMayAsk(bool known, const std::string& service) const;

  const VersionTable& served_;
  const bool names_are_closed_;
  absl::flat_hash_set<std::string> services_ = {""};

  mutable Mutex mu_;
  std::string why_not_ ABSL_GUARDED_BY(mu_) = "the server is starting";  // Empty: it serves.
  absl::flat_hash_set<std::string> broken_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<Watcher*> watchers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_HEALTH_SERVICE_H_
