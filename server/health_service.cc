#include "server/health_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/grpc_order.h"
#include "server/grpc_status.h"
#include "server/parse_message.h"

namespace gluond::server {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One who watches. Lives until gRPC is done with it.
class HealthService::Watcher final : public RawStream {
 public:
  Watcher(HealthService& health, const Method& method, grpc::CallbackServerContext* context)
      : health_(health), method_(method), guest_(health.runner().peers, context) {
    __tsan_release(this);
    StartRead(&incoming_);
  }

  // With mu_ held. Tells of the status as it is now, where the client was told of another.
  void Tell() {
    const Status status = health_.StatusOf(service_);
    if (finished_ || writing_ || !knows_service_ || status == told_) return;
    told_ = status;
    writing_ = true;
    HealthCheckResponse response;
    response.set_status(status);
    const grpc::Slice slice(response.SerializeAsString());
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    __tsan_release(this);
    StartWrite(&outgoing_);
  }

 private:
  void OnReadDone(bool ok) override {
    __tsan_acquire(this);
    if (!ok) return End(absl::CancelledError("the call ended before its message came"));
    guest_.peer()->Gave(static_cast<int64_t>(incoming_.Length()));
    HealthCheckRequest request;
    if (absl::Status status = ParseShortMessage(incoming_, &request); !status.ok()) return End(status);
    incoming_.Clear();
    std::lock_guard lock(health_.mu_);
    service_ = request.service();
    knows_service_ = true;
    health_.watchers_.insert(this);
    Tell();
  }
  void OnWriteDone(bool ok) override {
    __tsan_acquire(this);
    if (!ok) return End(absl::CancelledError("the client is gone"));
    std::lock_guard lock(health_.mu_);
    writing_ = false;
    Tell();
  }
  void OnCancel() override {
    __tsan_acquire(this);
    guest_.Leave();
    health_.runner().peers.WasReset(*guest_.peer());
    End(absl::CancelledError("the client is gone"));
  }
  void OnDone() override {
    __tsan_acquire(this);
    {
      std::lock_guard lock(health_.mu_);
      health_.watchers_.erase(this);
    }
    delete this;
  }

  void End(const absl::Status& status) {
    std::lock_guard lock(health_.mu_);
    if (std::exchange(finished_, true)) return;
    guest_.Leave();
    Finish(ToGrpc(Annotate(status, method_.name)));
  }

  HealthService& health_;
  const Method& method_;
  Guest guest_;
  grpc::ByteBuffer incoming_, outgoing_;
  std::string service_;  // Guarded by mu_, as all that follows.
  bool knows_service_ = false;
  Status told_ = HealthCheckResponse::UNKNOWN;
  bool writing_ = false;
  bool finished_ = false;
};

HealthService::HealthService(Runner& runner) : RawService(runner, "grpc.health.v1.Health") {
  Add("Check", this, &HealthService::Check, Weight::kAlways);
  AddStream<HealthCheckRequest>("Watch", this, &HealthService::Watch);
}

void HealthService::SetServing(bool serving) {
  std::lock_guard lock(mu_);
  serving_ = serving;
  for (Watcher* watcher : watchers_) watcher->Tell();
}

HealthService::Status HealthService::StatusOf(const std::string& service) const {
  if (!services_.contains(service)) return HealthCheckResponse::SERVICE_UNKNOWN;
  return serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthService::Check(Call<HealthCheckRequest, HealthCheckResponse> call) {
  Status status;
  {
    std::lock_guard lock(mu_);
    status = StatusOf(call.request().service());
  }
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return call.Finish(absl::NotFoundError(absl::StrCat("there is no service '", call.request().service(), "'")));
  }
  call.response().set_status(status);
  call.Finish();
}

RawService::RawStream* HealthService::Watch(const Method& method, grpc::CallbackServerContext* context) {
  return new Watcher(*this, method, context);
}

}  // namespace gluond::server
