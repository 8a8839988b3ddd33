#include "server/call_backlog.h"

#include <chrono>
#include <thread>

namespace gluond::server {
namespace {

// So many calls may wait; they take some ten milliseconds.
constexpr int64_t kMostWaiting = 256;
// A thread waits no longer than so often so long: what it would go on with may be another client's.
constexpr int kWaits = 20;
constexpr std::chrono::milliseconds kWait{1};

thread_local bool may_wait = false;

}  // namespace

class CallBacklog::Contexts final : public grpc::ContextAllocator {
 public:
  explicit Contexts(CallBacklog& backlog) : backlog_(backlog) {}

  // On the thread that has read the call.
  grpc::CallbackServerContext* NewCallbackServerContext() override {
    backlog_.Came();
    return new grpc::CallbackServerContext;
  }
  void Release(grpc::CallbackServerContext* context) override { delete context; }

 private:
  CallBacklog& backlog_;
};

std::unique_ptr<grpc::ContextAllocator> CallBacklog::Allocator() { return std::make_unique<Contexts>(*this); }

void CallBacklog::MayWait() { may_wait = true; }

void CallBacklog::Came() {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  if (!may_wait) return;
  for (int i = 0; i < kWaits && waiting_.load(std::memory_order_relaxed) > kMostWaiting; ++i) {
    std::this_thread::sleep_for(kWait);
  }
}

}  // namespace gluond::server
