#include "server/net/grpc_1_51/arrivals.h"

#include <chrono>

namespace gluond::server {
namespace {

// A reader waits no longer than this for a mark.
constexpr std::chrono::milliseconds kMoment{100};

thread_local bool may_wait = false;

}  // namespace

void Arrivals::MayWaitHere() { may_wait = true; }

void Arrivals::Start(grpc::ServerCompletionQueue& queue) {
  MutexLock lock(mu_);
  queue_ = &queue;
}

void Arrivals::Stop() {
  MutexLock lock(mu_);
  queue_ = nullptr;
  out_.NotifyAll();
}

void Arrivals::Read() {
  if (read_.fetch_add(1) + 1 < kWindow) return;
  MutexLock lock(mu_);
  if (may_wait) {
    const auto end = std::chrono::steady_clock::now() + kMoment;
    while (queue_ != nullptr && mark_.is_in_queue() && read_ >= 2 * kWindow) {
      if (!out_.WaitUntil(mu_, end)) read_ = kWindow;
    }
  }
  if (queue_ == nullptr || mark_.is_in_queue() || read_ < kWindow) return;
  read_ = 0;
  mark_.Put(*queue_, *this);
}

void Arrivals::Done(bool) {
  MutexLock lock(mu_);
  mark_.Out();
  out_.NotifyAll();
}

}  // namespace gluond::server
