// BatchQueue: the requests that wait for a version, and the choice of those that are computed next, together. Not
// thread-safe.
//
//   RETURN_IF_ERROR(queue.Add(request));
//   Clock::time_point again;
//   Batch batch = queue.Take(now, &again);  // Empty: nothing is due before `again`.
//
// A batch is led by the request of its kind that has the highest priority and comes next there. The next requests of its
// kind join the batch while they fit, whatever stands between them. A batch is due when no more may join it: it is full, it
// has a preferred size, or one of its requests has waited for max_queue_delay. The first leader's batch that is due is
// taken.
//
// Within a priority, callers take turns, row by row: a caller that has many requests waiting keeps no other behind them. A
// caller is an identity, on however many connections, or a connection where identities are not known. (Tenants take no
// turns here: all callers of a version are of the version's tenant, but for the server's admin.) Each priority has a queue
// of its own, and all queues are equally long. In a full queue, the last request of the caller that has the most there
// gives way to a request of a caller with fewer.
//
// A batch that is taken is cancelled when nobody waits for any of its requests any more.

#ifndef SERVER_SERVING_BATCH_QUEUE_H_
#define SERVER_SERVING_BATCH_QUEUE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "engine/runtime/cancellation.h"
#include "server/serving/infer_request.h"
#include "server/serving/options.h"

namespace gluond::server {

class BatchQueue {
 public:
  using Clock = InferRequest::Clock;

  // `most`: requests that wait in a priority, where the options leave it open.
  BatchQueue(const ServingOptions& options, int64_t most)
      : options_(options), most_(options.max_queue_size > 0 ? options.max_queue_size : most) {}

  // As Triton does, gives a priority that there is not the default's place, and hears a timeout only where the options allow
  // it, and where it is shorter than theirs. UNAVAILABLE: too many wait. INVALID_ARGUMENT: more rows than max_batch_size.
  absl::Status Add(InferRequestPtr request);
  Batch Take(Clock::time_point now, Clock::time_point* again);
  // Requests that are not to be computed any more, with the reason: cancelled, late, or gone to make room. With
  // delay_late_requests, late ones stay, behind all others of their priority.
  using Dead = std::vector<std::pair<InferRequestPtr, absl::Status>>;
  Dead TakeDead(Clock::time_point now);
  // Some gave way to others since TakeDead.
  bool has_dead() const { return !gave_way_.empty(); }
  std::vector<InferRequestPtr> TakeAll();
  // Takes the requests of a batch back, before all others: each will be a batch of its own.
  void Return(const Batch& batch);
  // Whether no batch waits for more requests, as those that come go elsewhere.
  void set_hurries(bool hurries) { hurries_ = hurries; }
  // When TakeDead would have more; Clock::time_point::max(): no time is set.
  Clock::time_point next_death() const;

  int64_t size() const { return size_; }

 private:
  using Requests = std::list<InferRequestPtr>;
  // The identity's name, or where there is none, the account.
  using Who = std::pair<std::string, AccountPtr>;
  // The requests of one priority, by their turns.
  struct Level {
    struct Caller {
      int64_t next = 0;     // The turn of its next request, at the earliest.
      int64_t waiting = 0;  // So many requests wait.
    };
    Requests requests;
    int64_t turn = 0;                          // The turn of the request that led the last batch.
    absl::flat_hash_map<Who, Caller> callers;  // Those with requests that wait.
  };

  static Who WhoSent(const InferRequest& request);
  void Enter(InferRequestPtr request);
  // Notes that a request of the level is taken.
  void Left(Level& level, const InferRequest& request);
  // Takes out the level's last request of the caller that has the most there, unless `caller` would have as many. Whether
  // it did.
  bool MakeRoomFor(const Who& caller, Level& level);
  // The reason why nobody waits for the request any more; OK: somebody does.
  static absl::Status WhyDead(const InferRequest& request, Clock::time_point now);

  const ServingOptions options_;
  const int64_t most_;  // Requests that may wait in each level.
  bool hurries_ = false;
  int64_t size_ = 0;
  std::map<uint64_t, Level> by_priority_;
  Dead gave_way_;
};

// Is cancelled with the last of the batch's requests. Null: one of them cannot be cancelled. The requests listen from here on.
// Requires: they do not yet.
std::shared_ptr<Cancellation> CancelledTogether(const Batch& batch);
// Whether somebody waits for one of the requests.
bool IsWanted(const Batch& batch);

}  // namespace gluond::server

#endif  // SERVER_SERVING_BATCH_QUEUE_H_
