// Alarm calls functions at their times, on a thread of its own, which begins within others' turns (engine/runtime/processors.h):
// a request's wait for its batch ends in time while models train. They are to be short. Thread-safe. Its end forgets those
// whose time has not come.
//
//   alarm.At(now + std::chrono::microseconds(500), [version] { version->Pump(); });

#ifndef SERVER_SERVING_ALARM_H_
#define SERVER_SERVING_ALARM_H_

#include <chrono>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "engine/core/mutex.h"
#include "engine/core/start_thread.h"
#include "engine/runtime/processors.h"
#include "server/start/pulse.h"

namespace gluond::server {

class Alarm {
 public:
  using Clock = std::chrono::steady_clock;

  Alarm() {
    StartOrExit(&thread_, "the alarm", [this] {
      TakeShortTurns();
      Run();
    });
  }
  ~Alarm() {
    {
      MutexLock lock(mu_);
      ending_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  void At(Clock::time_point time, std::function<void()> work) {
    bool is_next = false;
    {
      MutexLock lock(mu_);
      const auto place = waiting_.emplace(time, std::move(work));
      is_next = place == waiting_.begin();
    }
    if (is_next) changed_.NotifyAll();
  }

 private:
  void Run() {
    MutexLock lock(mu_);
    while (!ending_) {
      if (waiting_.empty()) {
        pulse_.Rest();
        changed_.Wait(mu_);
      } else if (const Clock::time_point next = waiting_.begin()->first; Clock::now() < next) {
        pulse_.Rest();
        changed_.WaitUntil(mu_, next);
      } else {
        pulse_.Beat();
        const auto node = waiting_.extract(waiting_.begin());
        lock.Unlock();
        node.mapped()();
        lock.Lock();
      }
    }
  }

  Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::multimap<Clock::time_point, std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  Pulse pulse_{"alarm"};
  std::thread thread_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_ALARM_H_
