#include "engine/runtime/lane.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/status_macros.h"
#include "engine/runtime/background.h"
#include "engine/runtime/bump_scratch.h"
#include "engine/runtime/open_mp_threads.h"

namespace gluond {
namespace {

class FunctionWork final : public Work {
 public:
  explicit FunctionWork(std::function<void()> function) : function_(std::move(function)) {}
  void Do() override {
    const std::unique_ptr<FunctionWork> self(this);
    function_();
  }

 private:
  const std::function<void()> function_;
};

}  // namespace

// A queue, a thread, and a list of what is to be done later.
class LaneThread final : public Lane {
 public:
  static constexpr std::chrono::microseconds kLook{500};

  LaneThread(Device device, const LaneOptions& options, DeviceDriver& driver, void* stream, Allocator& allocator)
      : device_(device), driver_(driver), stream_(stream), threads_(options.threads),
        scratch_(allocator, driver, stream) {
    timers_.reserve(64);
    thread_ = std::thread([this] { Loop(); });
  }

  ~LaneThread() override {
    // What is done beside ends on the lane, and what the lane does may begin more beside it.
    do {
      Drain();
    } while (beside_.Drain());
    {
      std::lock_guard lock(mu_);
      ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
    driver_.DestroyStream(stream_);
  }

  void Post(std::function<void()> work) override { Post(new FunctionWork(std::move(work))); }

  void Post(Work* work) override {
    bool wake;
    {
      std::lock_guard lock(mu_);
      work->next_ = nullptr;
      *tail_ = work;
      tail_ = &work->next_;
      posted_.store(true, std::memory_order_release);
      wake = std::exchange(asleep_, false);
    }
    if (wake) wake_.notify_one();
  }

  void PostBeside(std::function<void()> work) override { beside_.Post(std::move(work)); }

  bool IsCurrent() const override { return std::this_thread::get_id() == thread_.get_id(); }
  Device device() const override { return device_; }
  DeviceDriver& driver() const override { return driver_; }
  void* stream() const override { return stream_; }
  const Threads* threads() const override { return device_.type == DeviceType::kCpu ? &threads_ : nullptr; }

  Scratch& scratch() override { return scratch_; }
  void ResetScratch() override { scratch_.Reset(); }
  void DoAt(Clock::time_point when, Work* work) override { timers_.push_back({when, work}); }
  void Forget(Work* work) override {
    std::erase_if(timers_, [work](const Timer& timer) { return timer.work == work; });
  }

 private:
  struct Timer {
    Clock::time_point when;
    Work* work;
  };

  // Waits until the lane has done what was posted.
  void Drain() {
    std::promise<void> done;
    Post([&done] { done.set_value(); });
    done.get_future().wait();
  }

  void Loop() {
    const ScopedTeamSize team(device_.type == DeviceType::kCpu ? threads_.count() : 0);
    while (true) {
      Work* work = Take();
      if (work == nullptr) break;
      while (work != nullptr) {
        Work* const next = work->next_;  // Doing it may end its life.
        work->Do();
        work = next;
      }
      DoTimers();
    }
  }

  // Waits for work and takes all of it, or returns nothing_ when a timer is due. nullptr: the lane ends.
  Work* Take() {
    LookForWork();
    std::unique_lock lock(mu_);
    while (head_ == nullptr && !ending_) {
      asleep_ = true;
      if (timers_.empty()) {
        wake_.wait(lock);
      } else if (const Clock::time_point when = FirstTimer(); wake_.wait_until(lock, when) == std::cv_status::timeout) {
        break;
      }
    }
    asleep_ = false;
    if (head_ == nullptr) return ending_ ? nullptr : &nothing_;
    tail_ = &head_;
    posted_.store(false, std::memory_order_relaxed);
    return std::exchange(head_, nullptr);
  }

  // A moment's look before sleep: a client that waits for each answer sends its next call within it, and waking a
  // thread costs more than the call. Gives way to any other thread that wants the processor.
  void LookForWork() {
    const Clock::time_point end = Clock::now() + kLook;
    while (!posted_.load(std::memory_order_acquire) && Clock::now() < end) std::this_thread::yield();
  }

  Clock::time_point FirstTimer() const {
    return std::min_element(timers_.begin(), timers_.end(),
                            [](const Timer& a, const Timer& b) { return a.when < b.when; })->when;
  }

  void DoTimers() {
    while (!timers_.empty()) {
      const auto due = std::find_if(timers_.begin(), timers_.end(),
                                    [now = Clock::now()](const Timer& timer) { return timer.when <= now; });
      if (due == timers_.end()) return;
      Work* const work = due->work;
      timers_.erase(due);
      work->Do();
    }
  }

  struct Nothing final : Work {
    void Do() override {}
  };

  const Device device_;
  DeviceDriver& driver_;
  void* const stream_;
  const OpenMpThreads threads_;

  // Of the lane's thread.
  BumpScratch scratch_;
  std::vector<Timer> timers_;
  Nothing nothing_;

  std::mutex mu_;
  std::condition_variable wake_;
  Work* head_ = nullptr;    // Guarded by mu_, as all that follows. Linked by next_.
  Work** tail_ = &head_;
  std::atomic<bool> posted_ = false;  // Written under mu_.
  bool asleep_ = false;
  bool ending_ = false;

  std::thread thread_;
  Background beside_;
};

absl::StatusOr<std::unique_ptr<Lane>> Lane::Create(Device device, const LaneOptions& options,
                                                   Allocator& scratch_allocator) {
  ASSIGN_OR_RETURN(DeviceDriver * driver, FindDriver(device));
  ASSIGN_OR_RETURN(void* const stream, driver->CreateStream());
  return std::make_unique<LaneThread>(device, options, *driver, stream, scratch_allocator);
}

}  // namespace gluond
