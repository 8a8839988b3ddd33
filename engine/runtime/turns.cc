#include "engine/runtime/turns.h"

namespace gluond {

void Turns::Do(absl::FunctionRef<void()> work) {
  std::unique_lock lock(mu_);
  const uint64_t ticket = next_++;
  if (ticket >= ended_ + at_once_) {
    waiting_[ticket].wait(lock, [&] { return ticket < ended_ + at_once_; });
    waiting_.erase(ticket);
  }
  lock.unlock();
  work();
  lock.lock();
  ++ended_;
  if (const auto next = waiting_.find(ended_ + at_once_ - 1); next != waiting_.end()) next->second.notify_one();
}

}  // namespace gluond
