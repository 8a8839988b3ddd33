#include "engine/runtime/fair_semaphore.h"
#include "engine/runtime/tuning.h"

#include <algorithm>

namespace gluond {

FairSemaphore& FairSemaphore::OfLongWork() {
  static FairSemaphore& semaphore = *new FairSemaphore(tuning::kLongWorksAtOnce);
  return semaphore;
}

void FairSemaphore::Do(absl::FunctionRef<void()> work) {
  MutexLock lock(mu_);
  const uint64_t ticket = next_++;
  if (ticket >= ended_ + at_once_) {
    CondVar& turn = waiting_[ticket];
    while (ticket >= ended_ + at_once_) turn.Wait(mu_);
    waiting_.erase(ticket);
  }
  lock.Unlock();
  work();
  lock.Lock();
  ++ended_;
  if (const auto next = waiting_.find(ended_ + at_once_ - 1); next != waiting_.end()) next->second.NotifyOne();
}

void FairSemaphore::DoInPieces(int64_t n, int64_t piece, absl::FunctionRef<void(int64_t, int64_t)> work) {
  if (n <= piece) return work(0, n);
  for (int64_t begin = 0; begin < n; begin += piece) {
    Do([&] { work(begin, std::min(n, begin + piece)); });
  }
}

}  // namespace gluond
