// Sweeper calls `sweep`, which forgets expired things, every second on a thread of its own. Stops when it is destroyed.

#ifndef SERVER_HOSTED_SWEEPER_H_
#define SERVER_HOSTED_SWEEPER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace gluond::server {

class Sweeper {
 public:
  explicit Sweeper(std::function<void()> sweep, std::chrono::milliseconds period = std::chrono::seconds(1))
      : thread_([this, sweep = std::move(sweep), period] {
          std::unique_lock lock(mu_);
          while (!ended_.wait_for(lock, period, [this] { return ending_; })) sweep();
        }) {}
  ~Sweeper() {
    {
      std::lock_guard lock(mu_);
      ending_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mu_;
  std::condition_variable ended_;
  bool ending_ = false;  // Guarded by mu_.
  std::thread thread_;   // Last: it uses the others.
};

}  // namespace gluond::server

#endif  // SERVER_HOSTED_SWEEPER_H_
