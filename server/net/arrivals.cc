#include "server/net/arrivals.h"

#include <chrono>
#include <utility>
#include <vector>

namespace gluond::server {
namespace {

// A reader waits no longer than so.
constexpr std::chrono::milliseconds kMoment{100};

// A thread that begins calls reads some as well, and never waits: the others wait for it.
thread_local bool begins_calls = false;

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

// gRPC asks for an interceptor when it begins a call, and gets none.
class Beginning final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Beginning(std::shared_ptr<Arrivals> arrivals) : arrivals_(std::move(arrivals)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo*) override {
    arrivals_->Begin();
    return nullptr;
  }

 private:
  const std::shared_ptr<Arrivals> arrivals_;
};

}  // namespace

void Arrivals::CountIn(std::shared_ptr<Arrivals> arrivals, grpc::ServerBuilder& builder) {
  builder.SetContextAllocator(std::make_unique<Reading>(arrivals));
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(std::make_unique<Beginning>(std::move(arrivals)));
  builder.experimental().SetInterceptorCreators(std::move(creators));
}

void Arrivals::Read() {
  if (++waiting_ <= most_ || begins_calls) return;
  std::unique_lock lock(mu_);
  fewer_.wait_for(lock, kMoment, [this] { return waiting_ <= most_; });
}

void Arrivals::Begin() {
  begins_calls = true;
  if (--waiting_ != most_) return;
  std::lock_guard lock(mu_);
  fewer_.notify_all();
}

}  // namespace gluond::server
