#include "client/cpp/custom/pool.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/session/mode.h"

namespace gluond::client {
namespace {

// Calls that wait for a thread, and their bytes.
constexpr size_t kMostPending = size_t{1} << 16, kMostCallBytes = size_t{1} << 30;
constexpr absl::Duration kStall = absl::Seconds(5);

}  // namespace

CallbackPool::~CallbackPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    waiting_.clear();
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void CallbackPool::Take(v1::Callback call) {
  std::string why;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t bytes = call.ByteSizeLong();
    if (idle_ <= waiting_.size() && threads_.size() < most_threads_) {
      try {
        threads_.emplace_back([this] { Work(); });
      } catch (const std::system_error& error) {
        if (threads_.empty()) why = absl::StrCat("this process gets no thread for it: ", error.what());
      }
    }
    if (waiting_.size() >= kMostPending || waiting_bytes_ + bytes > kMostCallBytes) {
      why = absl::StrCat("this process computes ", most_threads_,
                         " calls of custom operators at a time, and as many as may wait for a thread do; ask for fewer at once");
    }
    if (why.empty()) {
      waiting_bytes_ += bytes;
      waiting_.push_back(std::move(call));
      changed_.notify_one();
      return;
    }
  }
  refuse_(call, why);
}

void CallbackPool::Work() {
  around_wait = [this](bool begins) {
    std::lock_guard<std::mutex> lock(mutex_);
    begins ? ++blocked_ : --blocked_;
    moved_ = absl::Now();
  };
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    --idle_;
    if (ends_) return;
    const v1::Callback call = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= call.ByteSizeLong();
    moved_ = absl::Now();
    lock.unlock();
    run_(call);
    lock.lock();
    moved_ = absl::Now();
  }
}

void CallbackPool::RefuseIfStalled() {
  std::deque<v1::Callback> refused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool is_stalled = threads_.size() >= most_threads_ && blocked_ >= threads_.size() && absl::Now() - moved_ > kStall;
    if (is_stalled) {
      refused.swap(waiting_);
      waiting_bytes_ = 0;
    }
  }
  for (const v1::Callback& call : refused) {
    refuse_(call,
            absl::StrCat(most_threads_,
                         " calls of custom operators are under way in this process, and each has waited for the "
                         "server for ",
                         absl::ToDoubleSeconds(kStall),
                         " s: perhaps for one like this, which there is no thread for. Nest operators less deeply, or ask for "
                         "fewer at once"));
  }
}

}  // namespace gluond::client
