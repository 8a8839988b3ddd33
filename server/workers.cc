#include "server/workers.h"

#include <utility>

namespace gluond::server {

Workers::Workers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

Workers::~Workers() {
  {
    std::lock_guard lock(mu_);
    ending_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::Post(std::function<void()> work) {
  {
    std::lock_guard lock(mu_);
    queue_.push_back(std::move(work));
  }
  posted_.notify_one();
}

void Workers::Loop() {
  std::unique_lock lock(mu_);
  for (;;) {
    posted_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // What it owns goes while the lock is free.
    lock.lock();
  }
}

}  // namespace gluond::server
