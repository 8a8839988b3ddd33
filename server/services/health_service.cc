#include "server/services/health_service.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/wire/wire_message.h"

namespace gluond::server {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListRequest;
using grpc::health::v1::HealthListResponse;

namespace {

// The names of published models begin so.
constexpr char kModel[] = "model:";
constexpr size_t kMostListed = 100;  // As other servers have it.

}  // namespace

// One who watches.
class HealthService::Watcher final : public Stream {
 public:
  Watcher(HealthService& health, const Opening& opening) : Stream(health.runner(), opening), health_(health) {}

  // Tells of the status as it is now, where the client was told of another.
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_.mu_) {
    const Status status = health_.StatusWithin(reach(), service_);
    if (finished_ || writing_ || !knows_service_ || status == told_) return;
    told_ = status;
    writing_ = true;
    HealthCheckResponse response;
    response.set_status(status);
    StartWrite({grpc::Slice(response.SerializeAsString())});
  }

 private:
  void OnBegin() override { StartRead(); }
  void OnRead(Slices* message) override {
    if (message == nullptr) return End(absl::CancelledError("the call ended before its message came"));
    HealthCheckRequest request;
    if (absl::Status status = ParseShortMessage(*message, &request, encoding()); !status.ok()) return End(status);
    if (absl::Status status = health_.CheckMayAsk(caller() != nullptr, request.service()); !status.ok()) return End(status);
    MutexLock lock(health_.mu_);
    service_ = request.service();
    knows_service_ = true;
    health_.watchers_.insert(this);
    Tell();
  }
  void OnWritten(bool ok) override {
    if (!ok) return End(absl::CancelledError("the client is gone"));
    MutexLock lock(health_.mu_);
    writing_ = false;
    Tell();
  }
  void OnCancelled() override { End(absl::CancelledError("the client is gone")); }
  void OnOver() override {
    MutexLock lock(health_.mu_);
    health_.watchers_.erase(this);
  }

  void End(const absl::Status& status) {
    MutexLock lock(health_.mu_);
    if (std::exchange(finished_, true)) return;
    Finish(Annotate(status, method().name));
  }

  HealthService& health_;
  std::string service_ ABSL_GUARDED_BY(health_.mu_);
  bool knows_service_ ABSL_GUARDED_BY(health_.mu_) = false;
  Status told_ ABSL_GUARDED_BY(health_.mu_) = HealthCheckResponse::UNKNOWN;
  bool writing_ ABSL_GUARDED_BY(health_.mu_) = false;
  bool finished_ ABSL_GUARDED_BY(health_.mu_) = false;
};

HealthService::HealthService(Runner& runner, const VersionTable& served, bool names_are_closed)
    : RawService(runner, "grpc.health.v1.Health"), served_(served), names_are_closed_(names_are_closed) {
  Add("Check", this, &HealthService::Check);
  Add("List", this, &HealthService::List);
  AddStream<HealthCheckRequest>("Watch", this, &HealthService::Watch);
}

void HealthService::SetServing() { SetNotServing(""); }

void HealthService::SetNotServing(absl::string_view reason) {
  MutexLock lock(mu_);
  why_not_ = std::string(reason);
  TellAll();
}

std::string HealthService::WhyNotServing() const {
  MutexLock lock(mu_);
  return why_not_.empty() && broken_.contains("") ? "the first device has failed" : why_not_;
}

void HealthService::SetBroken(const std::string& service) {
  MutexLock lock(mu_);
  broken_.insert(service);
  TellAll();
}

void HealthService::Sweep() {
  MutexLock lock(mu_);
  TellAll();
}

void HealthService::TellAll() {
  for (Watcher* watcher : watchers_) watcher->Tell();
}

HealthService::Status HealthService::StatusOf(const std::string& service) const {
  bool is_known = services_.contains(service), serves = !broken_.contains(service);
  if (absl::string_view name = service; absl::ConsumePrefix(&name, kModel)) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits(':', 1));
    const absl::Status chosen = served_.Choose(parts.first, parts.second, std::nullopt).status();
    is_known = !absl::IsNotFound(chosen);
    serves = chosen.ok();
  }
  if (!is_known) return HealthCheckResponse::SERVICE_UNKNOWN;
  return serves && why_not_.empty() ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

HealthService::Status HealthService::StatusWithin(const Reach& reach, const std::string& service) const {
  absl::string_view name = service;
  const bool is_beyond = names_are_closed_ && absl::ConsumePrefix(&name, kModel) && !reach.Has(name);
  return is_beyond ? HealthCheckResponse::SERVICE_UNKNOWN : StatusOf(service);
}

absl::Status HealthService::CheckMayAsk(bool known, const std::string& service) const {
  if (known || service.empty() || !names_are_closed_) return absl::OkStatus();
  return WithInfo(
      absl::UnauthenticatedError(
          "health tells of anything but the server itself, which has no name, to callers whom it knows (--health_names=closed): "
          "send the metadata `authorization: Bearer TOKEN`"),
      reason::kNoIdentity);
}

void HealthService::Check(Call<HealthCheckRequest, HealthCheckResponse> call) {
  FINISH_IF_ERROR(call, CheckMayAsk(call.has_caller(), call.request().service()));
  Status status;
  {
    MutexLock lock(mu_);
    status = StatusWithin(call.reach(), call.request().service());
  }
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return call.Finish(NotFound("there is no service '", call.request().service(), "'"));
  }
  call.response().set_status(status);
  call.Finish();
}

void HealthService::List(Call<HealthListRequest, HealthListResponse> call) {
  absl::flat_hash_set<std::string> names = services_;
  for (const auto& version : served_.List()) {
    if (call.reach().Has(version.served())) names.insert(absl::StrCat(kModel, version.served()));
  }
  if (names.size() > kMostListed) {
    return call.Finish(
        absl::ResourceExhaustedError(absl::StrCat("there are ", names.size(), " services, devices and models, and a list has ",
                                                  kMostListed, " at most; ask for one by Check, or for models by ListVersions")));
  }
  {
    MutexLock lock(mu_);
    for (const std::string& name : names) {
      const Status status = StatusOf(name);
      // A model may have been retired meanwhile.
      if (status != HealthCheckResponse::SERVICE_UNKNOWN) (*call.response().mutable_statuses())[name].set_status(status);
    }
  }
  call.Finish();
}

std::shared_ptr<Stream> HealthService::Watch(Stream::Opening opening) { return Stream::Make<Watcher>(*this, opening); }

}  // namespace gluond::server
