// Cancellation: asks a run to stop at its next node, or at once while it is suspended. Thread-safe.

#ifndef ENGINE_RUNTIME_CANCELLATION_H_
#define ENGINE_RUNTIME_CANCELLATION_H_

#include <atomic>
#include <chrono>

#include "absl/status/status.h"
#include "engine/core/mutex.h"

namespace gluond {

class Cancellation {
 public:
  using Clock = std::chrono::steady_clock;

  // A Listener is told of Cancel, on the thread that calls it. OnCancel must not block, nor call this Cancellation.
  class Listener {
   public:
    virtual void OnCancel() = 0;

   protected:
    ~Listener() = default;

   private:
    friend class Cancellation;
    Listener* next_ = nullptr;
  };

  explicit Cancellation(Clock::time_point deadline = Clock::time_point::max()) : deadline_(deadline) {}

  void Cancel();

  // OK, CANCELLED or DEADLINE_EXCEEDED.
  absl::Status Check() const {
    if (cancelled_.load(std::memory_order_relaxed)) return absl::CancelledError("the call was cancelled");
    if (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) {
      return absl::DeadlineExceededError("the call's deadline passed");
    }
    return absl::OkStatus();
  }
  Clock::time_point deadline() const { return deadline_; }

  // False: it is cancelled already, and `listener` is not told. A listener listens to one Cancellation at a time.
  bool Listen(Listener* listener);
  // When it returns, `listener` is not being told and will not be. One that does not listen may be passed.
  void Unlisten(Listener* listener);

 private:
  std::atomic<bool> cancelled_ = false;
  const Clock::time_point deadline_;
  Mutex mu_;
  Listener* listeners_ ABSL_GUARDED_BY(mu_) = nullptr;  // Linked by next_.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_CANCELLATION_H_
