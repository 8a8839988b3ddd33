// GroupLoop: a thread on which the state machines of a group (leader.h, member.h) live. It does what is posted, in the order of
// arrival, and ticks. So the machines and all around them need no lock.

#ifndef SERVER_GROUP_LOOP_H_
#define SERVER_GROUP_LOOP_H_

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "engine/core/mutex.h"
#include "engine/core/start_thread.h"

namespace gluond::server {

class GroupLoop {
 public:
  using Clock = std::chrono::steady_clock;
  // A loop ticks several times until a silent process is lost, and often enough for a process that waits less long than this one.
  static std::chrono::milliseconds PeriodOf(std::chrono::milliseconds timeout) {
    return std::min(timeout / 8, std::chrono::milliseconds(250));
  }

  GroupLoop() = default;
  ~GroupLoop() { Stop(); }
  GroupLoop(const GroupLoop&) = delete;

  void Start(std::chrono::milliseconds period, std::function<void()> tick) {
    StartOrExit(&thread_, "the group's loop", [this, period, tick = std::move(tick)] { Run(period, tick); });
  }
  // Does what is under way, and nothing that was posted since. Not for the loop itself.
  void Stop() {
    {
      MutexLock lock(mu_);
      stops_ = true;
    }
    changed_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }
  // Thread-safe.
  void Post(std::function<void()> work) {
    {
      MutexLock lock(mu_);
      if (stops_) return;
      works_.push_back(std::move(work));
    }
    changed_.NotifyAll();
  }

 private:
  void Run(std::chrono::milliseconds period, const std::function<void()>& tick) {
    Clock::time_point next = Clock::now() + period;
    while (true) {
      std::function<void()> work;
      {
        MutexLock lock(mu_);
        while (!stops_ && works_.empty() && changed_.WaitUntil(mu_, next)) continue;
        if (stops_) return;
        if (!works_.empty()) {
          work = std::move(works_.front());
          works_.pop_front();
        }
      }
      if (work != nullptr) work();
      if (Clock::now() < next) continue;
      next = Clock::now() + period;
      tick();
    }
  }

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> works_ ABSL_GUARDED_BY(mu_);
  bool stops_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_LOOP_H_
