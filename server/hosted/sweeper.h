// Sweeper calls `sweep`, which forgets expired things, every second on a thread of its own. Stops when it is destroyed. Each
// call is a turn of its pulse (start/pulse.h), for the word `loop`.

#ifndef SERVER_HOSTED_SWEEPER_H_
#define SERVER_HOSTED_SWEEPER_H_

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "engine/core/mutex.h"
#include "engine/core/start_thread.h"
#include "server/start/pulse.h"

namespace gluond::server {

class Sweeper {
 public:
  Sweeper(std::string loop, std::function<void()> sweep, std::chrono::milliseconds period = std::chrono::seconds(1))
      : pulse_(std::move(loop)) {
    StartOrExit(&thread_, "a sweeper", [this, sweep = std::move(sweep), period] {
      MutexLock lock(mu_);
      while (!ending_) {
        const auto until = std::chrono::steady_clock::now() + period;
        while (!ending_ && ended_.WaitUntil(mu_, until)) continue;
        pulse_.Beat();
        if (!ending_) sweep();
      }
    });
  }
  ~Sweeper() {
    {
      MutexLock lock(mu_);
      ending_ = true;
    }
    ended_.NotifyAll();
    thread_.join();
  }

 private:
  Mutex mu_;
  CondVar ended_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  Pulse pulse_;
  std::thread thread_;
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_SWEEPER_H_
