// BatchQueue: the requests that wait for a version, and the choice of those that are computed next, together. Not
// thread-safe.
//
//   RETURN_IF_ERROR(queue.Add(request));
//   Clock::time_point again;
//   std::vector<InferRequestPtr> batch = queue.Take(now, &again);  // Empty: nothing is due before `again`.
//
// A batch is led by the request of its kind that has the highest priority and has waited longest; the next ones of its
// kind join it while they fit, whatever stands between them. A batch is due when no more may join it: it is full, it has
// a preferred size, or one of its requests has waited for max_queue_delay. The first leader's batch that is due is taken.

#ifndef SERVER_SERVING_BATCH_QUEUE_H_
#define SERVER_SERVING_BATCH_QUEUE_H_

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "server/serving/infer_request.h"
#include "server/serving/options.h"

namespace gluond::server {

class BatchQueue {
 public:
  using Clock = InferRequest::Clock;

  // `most`: requests that wait, where the options leave it open.
  BatchQueue(const ServingOptions& options, int64_t most)
      : options_(options), most_(options.max_queue_size > 0 ? options.max_queue_size : most) {}

  // UNAVAILABLE: too many wait. INVALID_ARGUMENT: a priority that there is not, a timeout that may not be said, or more
  // rows than max_batch_size.
  absl::Status Add(InferRequestPtr request);
  std::vector<InferRequestPtr> Take(Clock::time_point now, Clock::time_point* again);
  // Requests that nobody waits for any more, with the reason.
  std::vector<std::pair<InferRequestPtr, absl::Status>> TakeDead(Clock::time_point now);
  std::vector<InferRequestPtr> TakeAll();
  // Takes the requests of a batch back, before all others: each will be a batch of its own.
  void Return(const std::vector<InferRequestPtr>& batch);
  // When TakeDead would have more; Clock::time_point::max(): no time is set.
  Clock::time_point next_death() const;

  int64_t size() const { return size_; }

 private:
  using Requests = std::list<InferRequestPtr>;

  const ServingOptions options_;
  const int64_t most_;
  int64_t size_ = 0;
  std::map<uint64_t, Requests> by_priority_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_BATCH_QUEUE_H_
