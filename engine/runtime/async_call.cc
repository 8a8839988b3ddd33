#include "engine/runtime/async_call.h"

namespace gluond {

Completion AsyncCall::Begin(const std::shared_ptr<AsyncCall>& call, std::shared_ptr<AsyncOwner> owner) {
  {
    MutexLock lock(call->mu_);
    call->state_ = kWaiting;
  }
  call->self_ = call;
  call->owner_ = std::move(owner);
  call->in_use_.store(true, std::memory_order_relaxed);
  return Completion(call.get());
}

bool AsyncCall::completed() const {
  MutexLock lock(mu_);
  return state_ == kCompleted;
}

absl::Status AsyncCall::TakeStatus() {
  MutexLock lock(mu_);
  return std::exchange(status_, absl::OkStatus());
}

bool AsyncCall::Abandon() {
  MutexLock lock(mu_);
  if (state_ == kCompleted) return false;
  state_ = kAbandoned;
  return true;
}

void AsyncCall::Complete(absl::Status status) {
  MutexLock lock(mu_);
  const auto before = std::exchange(state_, kCompleted);
  if (before != kWaiting) return;
  status_ = std::move(status);
  // Told while the lock is held: a run that sees the completion by itself cannot end, and its lane with it, before
  // the owner has been told.
  owner_->OnComplete();
}

void AsyncCall::Release() {
  if (copies_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (!completed()) Complete(absl::InternalError("the operator dropped its call without completing it"));
  const std::shared_ptr<AsyncCall> self = std::move(self_);
  const std::shared_ptr<AsyncOwner> owner = std::move(owner_);
  in_use_.store(false, std::memory_order_release);
}

}  // namespace gluond
