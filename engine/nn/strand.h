// Strand: runs tasks one at a time, in the order of arrival, on a lane. A long task may yield between two of its parts:
// readers that are next in the queue then run first. A condition of the caller's is asked when a task's turn comes.
// Thread-safe.

#ifndef ENGINE_NN_STRAND_H_
#define ENGINE_NN_STRAND_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/task.h"

namespace gluond {

// Strands take on the calling thread's work under a condition: it is asked when the work's turn comes, and its error is
// the work's result, in place of running it.
class ScopedCondition {
 public:
  using Condition = std::function<absl::Status()>;

  // Null: none.
  explicit ScopedCondition(Condition condition) : before_(std::exchange(current_, std::move(condition))) {}
  ~ScopedCondition() { current_ = std::move(before_); }
  ScopedCondition(const ScopedCondition&) = delete;
  ScopedCondition& operator=(const ScopedCondition&) = delete;

  static const Condition& current() { return current_; }

 private:
  static inline thread_local Condition current_ = nullptr;
  Condition before_;
};

class Strand {
 public:
  // The lane must outlive all work. The strand itself may be destroyed before its work has run.
  explicit Strand(Lane& lane) : queue_(std::make_shared<Queue>(lane)) {}

  // Runs the task that `make` makes, on the lane, when all earlier tasks have ended, and tells `done` its result when
  // the next one may begin. The task may refer to objects that `make` holds. A `reader` changes nothing that a yielding
  // task relies on.
  template <class T>
  void Run(std::function<Task<T>()> make, std::function<void(T)> done, bool reader = false) {
    Enqueue(
        [make = std::move(make), done = std::move(done), condition = ScopedCondition::current()](Finished finished) mutable {
          if (Refused<T>(condition, done, finished)) return;
          RunTask<T>(std::move(make), [done = std::move(done), finished = std::move(finished)](T result) {
            finished();
            done(std::move(result));
          });
        },
        reader);
  }
  // The same for a function that does not wait.
  template <class T>
  void Do(std::function<T()> work, std::function<void(T)> done) {
    Enqueue(
        [work = std::move(work), done = std::move(done), condition = ScopedCondition::current()](const Finished& finished) {
          if (Refused<T>(condition, done, finished)) return;
          T result = work();
          finished();
          done(std::move(result));
        },
        /*reader=*/false);
  }

  // The running task awaits this: it goes on when the readers that are first in the queue now have run.
  Callback<absl::Status> Yield() {
    return Callback<absl::Status>([queue = queue_](const Callback<absl::Status>::Done& resume) {
      size_t readers = 0;
      {
        MutexLock lock(queue->mu);
        while (readers < queue->waiting.size() && queue->waiting[readers].reader) ++readers;
      }
      YieldOn(
          queue, readers,
          [queue, begun = queue->begun, resume] {
            queue->begun = begun;  // Not when the last reader began.
            resume(absl::OkStatus());
          },
          CurrentAccount());
    });
  }

  // Tasks that have begun or wait.
  int64_t depth() const {
    MutexLock lock(queue_->mu);
    return static_cast<int64_t>(queue_->waiting.size()) + (queue_->busy ? 1 : 0);
  }
  // On the lane: when the running task began, or the task whose `done` is running.
  std::chrono::steady_clock::time_point begun() const { return queue_->begun; }

 private:
  using Finished = std::function<void()>;
  using Work = std::function<void(Finished)>;
  struct Waiting {
    Work work;
    bool reader;
    AccountPtr account;
  };
  struct Queue {
    explicit Queue(Lane& lane) : lane(lane) {}
    Lane& lane;
    Mutex mu;
    bool busy ABSL_GUARDED_BY(mu) = false;
    std::deque<Waiting> waiting ABSL_GUARDED_BY(mu);
    std::chrono::steady_clock::time_point begun;  // The lane's.
  };

  // Whether the condition does not hold; then the work has ended.
  template <class T>
  static bool Refused(const ScopedCondition::Condition& condition, const std::function<void(T)>& done, const Finished& finished) {
    if (condition == nullptr) return false;
    absl::Status status = condition();
    if (status.ok()) return false;
    finished();
    done(std::move(status));
    return true;
  }

  void Enqueue(Work work, bool reader) {
    {
      MutexLock lock(queue_->mu);
      if (queue_->busy) return queue_->waiting.push_back({std::move(work), reader, CurrentAccount()});
      queue_->busy = true;
    }
    Post(queue_, std::move(work));
  }

  static void Post(const std::shared_ptr<Queue>& queue, Work work) {
    queue->lane.Post([queue, work = std::move(work)]() mutable {
      Work now = std::move(work);  // Destroyed, with all that it holds, before the next one begins.
      queue->begun = std::chrono::steady_clock::now();
      now([queue] { Next(queue); });
    });
  }

  static void Next(const std::shared_ptr<Queue>& queue) {
    Waiting next;
    {
      MutexLock lock(queue->mu);
      if (queue->waiting.empty()) {
        queue->busy = false;
        return;
      }
      next = std::move(queue->waiting.front());
      queue->waiting.pop_front();
    }
    const ScopedAccount account(std::move(next.account));
    Post(queue, std::move(next.work));
  }

  // `by`: the yielding task's account.
  static void YieldOn(const std::shared_ptr<Queue>& queue, size_t readers, std::function<void()> resume, const AccountPtr& by) {
    if (readers == 0) {
      const ScopedAccount account(by);
      return queue->lane.Post(std::move(resume));
    }
    Waiting reader;
    {
      MutexLock lock(queue->mu);
      reader = std::move(queue->waiting.front());
      queue->waiting.pop_front();
    }
    const ScopedAccount account(reader.account);
    queue->lane.Post([queue, readers, reader = std::move(reader.work), resume = std::move(resume), by] {
      queue->begun = std::chrono::steady_clock::now();
      reader([queue, readers, resume, by] { YieldOn(queue, readers - 1, resume, by); });
    });
  }

  const std::shared_ptr<Queue> queue_;
};

}  // namespace gluond

#endif  // ENGINE_NN_STRAND_H_
