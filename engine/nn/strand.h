// Strand: runs pieces of work one at a time, in the order of arrival, on a lane. A piece may end long after its
// function has returned. A long one may yield between two parts of its own: readers that would come next go first.
// Thread-safe.

#ifndef ENGINE_NN_STRAND_H_
#define ENGINE_NN_STRAND_H_

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/runtime/lane.h"

namespace gluond {

class Strand {
 public:
  using Finished = std::function<void()>;
  using Work = std::function<void(Finished)>;

  // The lane must outlive all work. The strand itself may go before its work has run.
  explicit Strand(Lane& lane) : queue_(std::make_shared<Queue>(lane)) {}

  // Posts work(finished) to the lane when all work before it has called its `finished`. A `reader` changes nothing that
  // a yielding piece goes by.
  void Enqueue(Work work, bool reader = false) {
    {
      std::lock_guard<std::mutex> lock(queue_->mu);
      if (queue_->busy) return queue_->waiting.push_back({std::move(work), reader, CurrentAccount()});
      queue_->busy = true;
    }
    Run(queue_, std::move(work));
  }

  // For the piece that runs: posts `resume` when the readers that wait first in the queue, now and not later, have run.
  // It is still the piece that runs, with its `finished` to call.
  void Yield(std::function<void()> resume) {
    size_t readers = 0;
    {
      std::lock_guard<std::mutex> lock(queue_->mu);
      while (readers < queue_->waiting.size() && queue_->waiting[readers].reader) ++readers;
    }
    YieldOn(queue_, readers, [queue = queue_, begun = queue_->begun, resume = std::move(resume)] {
      queue->begun = begun;  // Not when the last reader began.
      resume();
    }, CurrentAccount());
  }

  // On the lane: when the piece began that runs, or the one that has just called its `finished`.
  std::chrono::steady_clock::time_point begun() const { return queue_->begun; }

 private:
  struct Waiting {
    Work work;
    bool reader;
    AccountPtr account;
  };
  struct Queue {
    explicit Queue(Lane& lane) : lane(lane) {}
    Lane& lane;
    std::mutex mu;
    bool busy = false;            // Guarded by mu.
    std::deque<Waiting> waiting;  // Guarded by mu.
    std::chrono::steady_clock::time_point begun;  // The lane's.
  };

  static void Run(const std::shared_ptr<Queue>& queue, Work work) {
    queue->lane.Post([queue, work = std::move(work)]() mutable {
      Work now = std::move(work);  // Gone, with all that it holds, before the next piece begins.
      queue->begun = std::chrono::steady_clock::now();
      now([queue] { Next(queue); });
    });
  }

  static void Next(const std::shared_ptr<Queue>& queue) {
    Waiting next;
    {
      std::lock_guard<std::mutex> lock(queue->mu);
      if (queue->waiting.empty()) {
        queue->busy = false;
        return;
      }
      next = std::move(queue->waiting.front());
      queue->waiting.pop_front();
    }
    const ScopedAccount account(std::move(next.account));
    Run(queue, std::move(next.work));
  }

  // `by`: the account of the piece that yields.
  static void YieldOn(const std::shared_ptr<Queue>& queue, size_t readers, std::function<void()> resume,
                      const AccountPtr& by) {
    if (readers == 0) {
      const ScopedAccount account(by);
      return queue->lane.Post(std::move(resume));
    }
    Waiting reader;
    {
      std::lock_guard<std::mutex> lock(queue->mu);
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
