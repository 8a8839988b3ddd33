#include "engine/runtime/cancellation.h"

namespace gluond {

void Cancellation::Cancel() {
  MutexLock lock(mu_);
  cancelled_.store(true, std::memory_order_relaxed);
  for (Listener* listener = listeners_; listener != nullptr; listener = listener->next_) listener->OnCancel();
}

bool Cancellation::Listen(Listener* listener) {
  MutexLock lock(mu_);
  if (cancelled_.load(std::memory_order_relaxed)) return false;
  listener->next_ = listeners_;
  listeners_ = listener;
  return true;
}

void Cancellation::Unlisten(Listener* listener) {
  MutexLock lock(mu_);
  for (Listener** link = &listeners_; *link != nullptr; link = &(*link)->next_) {
    if (*link != listener) continue;
    *link = listener->next_;
    return;
  }
}

}  // namespace gluond
