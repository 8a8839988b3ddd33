// Strand: runs pieces of work one at a time, in the order of arrival, on a lane. A piece may end long after its function
// has returned. Thread-safe.

#ifndef ENGINE_NN_STRAND_H_
#define ENGINE_NN_STRAND_H_

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

  // Posts work(finished) to the lane when all work before it has called its `finished`.
  void Enqueue(Work work) {
    {
      std::lock_guard<std::mutex> lock(queue_->mu);
      if (queue_->busy) return queue_->waiting.push_back(std::move(work));
      queue_->busy = true;
    }
    Run(queue_, std::move(work));
  }

 private:
  struct Queue {
    explicit Queue(Lane& lane) : lane(lane) {}
    Lane& lane;
    std::mutex mu;
    bool busy = false;         // Guarded by mu.
    std::deque<Work> waiting;  // Guarded by mu.
  };

  static void Run(const std::shared_ptr<Queue>& queue, Work work) {
    queue->lane.Post([queue, work = std::move(work)]() mutable {
      Work now = std::move(work);  // Gone, with all that it holds, before the next piece begins.
      now([queue] { Next(queue); });
    });
  }

  static void Next(const std::shared_ptr<Queue>& queue) {
    Work next;
    {
      std::lock_guard<std::mutex> lock(queue->mu);
      if (queue->waiting.empty()) {
        queue->busy = false;
        return;
      }
      next = std::move(queue->waiting.front());
      queue->waiting.pop_front();
    }
    Run(queue, std::move(next));
  }

  const std::shared_ptr<Queue> queue_;
};

}  // namespace gluond

#endif  // ENGINE_NN_STRAND_H_
