#include "engine/runtime/background.h"

#include <utility>

namespace gluond {

Background::~Background() {
  {
    std::lock_guard lock(mu_);
    ending_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Background::Post(std::function<void()> work) {
  std::lock_guard lock(mu_);
  queue_.push_back(std::move(work));
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  wake_.notify_one();
}

bool Background::Drain() {
  std::unique_lock lock(mu_);
  if (queue_.empty() && !busy_) return false;
  idle_.wait(lock, [this] { return queue_.empty() && !busy_; });
  return true;
}

void Background::Loop() {
  std::unique_lock lock(mu_);
  while (true) {
    wake_.wait(lock, [this] { return !queue_.empty() || ending_; });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

}  // namespace gluond
