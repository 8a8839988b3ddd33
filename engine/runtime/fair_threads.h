// FairThreads: a pool of threads that accounts share (fair_order.h). Thread-safe.
//
// A work is never cut. When every thread has been held by one work for `patience` and another account's work waits,
// more threads join in: as many again each time, up to `most_threads`. They go when the first threads are free again.
// So where a few accounts hold threads for seconds, other accounts wait for a few times `patience`.

#ifndef ENGINE_RUNTIME_FAIR_THREADS_H_
#define ENGINE_RUNTIME_FAIR_THREADS_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/core/mutex.h"
#include "engine/runtime/fair_order.h"
#include "engine/runtime/tuning.h"

namespace gluond {

class FairThreads {
 public:
  using Clock = FairOrder::Clock;
  struct Load : FairOrder::Load {
    int64_t at_work = 0;                // Threads that have a work now;
    bool are_all = false;               // they are all of the pool's, and the process can start no more;
    Clock::duration longest_work = {};  // the work that has gone on for the longest time.
  };

  struct Options {
    std::string name = {};  // The threads', for debuggers. At most 15 bytes.
    int threads = 1;
    int most_threads = 1;
    std::chrono::milliseconds patience = tuning::kPatience;  // A work that takes longer is a long one.
    // A thread without work looks so long for a work before it sleeps: waking the thread costs more than a
    // short work.
    std::chrono::microseconds look{0};
    std::function<bool()> may_look = nullptr;  // Whether a thread may look now. May be null.
    // Makes an object that each thread holds while the thread lives. May be null.
    std::function<std::shared_ptr<void>()> enter = nullptr;
    // Called by a thread that has had no work for `rest_after`, once until the thread has work again. May be
    // null.
    std::function<void()> rest = nullptr;
    std::chrono::milliseconds rest_after = tuning::kRestAfter;
  };

  explicit FairThreads(Options options);
  // Does the works that were posted, then ends the threads.
  ~FairThreads();

  // Does `work` in its turn in `queue`, which must live until then, for the calling thread's account.
  void Post(WorkQueue& queue, Work* work);
  void Post(WorkQueue& queue, std::function<void()> work);
  // The same in the account's own queue: one such work of an account is done after the other.
  void Post(std::function<void()> work);
  // Posts `work` at `when` or soon after, unless Forget comes first.
  void DoAt(WorkQueue& queue, Clock::time_point when, Work* work);
  // For a work under way that goes on elsewhere when it returns: its thread then does other works. The next work of
  // the queue begins after the function that Detach returns was called, once, on any thread.
  std::function<void()> Detach();
  // Forgets a work of DoAt or Post that has not begun.
  void Forget(WorkQueue& queue, Work* work);

  // A work of DoAt counts from when it is due.
  Load load();

  // Waits until nothing is posted or under way. Returns whether Drain had to wait. Not for the pool's own threads.
  bool Drain();

  // The queue whose work the calling thread does, of whichever pool; null: none.
  static const WorkQueue* current_queue();

 private:
  static constexpr Clock::time_point kIdle = Clock::time_point::max();

  // A thread's place in the pool.
  struct PoolThread {
    bool joined = false;              // This thread came in later, and goes when the first threads are free.
    bool taking = true;               // It takes work now.
    Clock::time_point since = kIdle;  // When its work began.
    // Unless work comes first. A thread that has joined in ends instead.
    Clock::time_point rests_at = Clock::time_point::max();
    std::thread os_thread;
  };
  struct Timer {
    WorkQueue* queue;
    Work* work;
    AccountPtr account;
  };
  using Timers = std::multimap<Clock::time_point, Timer>;

  void Loop(PoolThread& thread);
  void Watch();

  // These let go of mu_ meanwhile.
  void Do(PoolThread& thread, const FairOrder::Piece& piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Rest(PoolThread& thread) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Sleep(PoolThread& thread) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndRetired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PostDue(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Timer EraseTimer(Timers::iterator timer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Clock::time_point first_timer() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Held(const PoolThread& thread, Clock::time_point now) const { return thread.since <= now - options_.patience; }
  bool FirstAreHeld(Clock::time_point now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayTake(PoolThread& thread, Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JoinIn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;

  Mutex mu_;
  CondVar wake_;     // Threads that take work wait on it.
  CondVar standby_;  // Threads that have joined in, and do not take work now, wait on it.
  CondVar watch_;
  CondVar drained_;
  FairOrder order_ ABSL_GUARDED_BY(mu_){options_.patience};
  Timers timers_ ABSL_GUARDED_BY(mu_);
  // Used again, so that a timer allocates nothing.
  std::vector<Timers::node_type> spare_timers_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<const Work*, Timers::iterator> timer_of_ ABSL_GUARDED_BY(mu_);
  std::list<PoolThread> threads_ ABSL_GUARDED_BY(mu_);  // The first `threads` of them stay.
  std::list<PoolThread> retired_ ABSL_GUARDED_BY(mu_);  // Ended, and to be joined.
  int asleep_ ABSL_GUARDED_BY(mu_) = 0;                 // On wake_.
  bool can_start_ ABSL_GUARDED_BY(mu_) = true;          // As of the last try.
  bool watching_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> posted_ = false;  // Something was posted since a thread last took work. Set under mu_.

  std::thread watcher_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_FAIR_THREADS_H_
