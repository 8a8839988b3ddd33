#include "server/net/arrivals.h"

#include <chrono>
#include <utility>

namespace gluond::server {
namespace {

// A reader waits no longer than this.
constexpr std::chrono::milliseconds kMoment{100};

thread_local bool may_wait = false;

// gRPC asks for a context when it has read a call, and gets none: it has its own.
class Reading final : public grpc::ContextAllocator {
 public:
  explicit Reading(std::shared_ptr<Arrivals> arrivals) : arrivals_(std::move(arrivals)) {}

  grpc::CallbackServerContext* NewCallbackServerContext() override {
    arrivals_->Read();
    return nullptr;
  }
  grpc::GenericCallbackServerContext* NewGenericCallbackServerContext() override {
    arrivals_->Read();
    return nullptr;
  }
  void Release(grpc::CallbackServerContext*) override {}
  void Release(grpc::GenericCallbackServerContext*) override {}

 private:
  const std::shared_ptr<Arrivals> arrivals_;
};

}  // namespace

void Arrivals::CountIn(std::shared_ptr<Arrivals> arrivals, grpc::ServerBuilder& builder) {
  builder.SetContextAllocator(std::make_unique<Reading>(std::move(arrivals)));
}

void Arrivals::Read() {
  if (++waiting_ <= most_ || !may_wait) return;
  const auto end = std::chrono::steady_clock::now() + kMoment;
  MutexLock lock(mu_);
  while (waiting_ > most_ && fewer_.WaitUntil(mu_, end)) continue;
}

void Arrivals::MayWaitHere() { may_wait = true; }

void Arrivals::Begin() {
  if (--waiting_ != most_) return;
  MutexLock lock(mu_);
  fewer_.NotifyAll();
}

}  // namespace gluond::server
