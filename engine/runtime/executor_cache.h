// ExecutorCache: compiled executors of one lane, kept for the next run of the same graph with the same signature and
// mode. Thread-safe.
//
//   const ExecutorQuery query = {graph, {.is_train = true}, inputs};
//   if (ExecutorLease lease = cache.TakeIdle(query)) ...
//   cache.Checkout(ExecutorKey::Make(query, signatures), [=](absl::StatusOr<ExecutorLease> lease) {  // On the lane's thread.
//     if (!lease.ok()) return Fail(lease.status());
//     auto executor = std::make_shared<ExecutorLease>(*std::move(lease));
//     (*executor)->StartHere(std::move(run), [executor](absl::Status status) { ... (*executor)->run().outputs ... });
//   });
//
// An executor runs one run at a time, so a key has as many of them as runs of it are under way at once. Since Checkout
// picks one when the lane gets to it, runs that queue for the lane share one; only a suspended run makes a second one
// necessary. A run never waits for another run's executor: a suspended run's operator may need the same key to go on.
// The lane and the allocator outlive the cache and its leases; leases may outlive the cache.

#ifndef ENGINE_RUNTIME_EXECUTOR_CACHE_H_
#define ENGINE_RUNTIME_EXECUTOR_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/graph.h"
#include "engine/core/tensor.h"
#include "engine/passes/infer.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"

namespace gluond {

// The question for an executor of that Graph object for inputs like these. The caller's inputs, in an order of the caller's,
// decide the signatures of all variables.
struct ExecutorQuery {
  std::shared_ptr<const Graph> graph;
  ExecutorOptions options;
  absl::Span<const Tensor> inputs;

  size_t hash() const;
};

// An executor is compiled for a key, which answers one query.
struct ExecutorKey {
  std::shared_ptr<const Graph> graph;
  ExecutorOptions options;
  std::vector<Signature> inputs;
  Signatures known;  // The variables', by name.
  size_t hash;

  static std::shared_ptr<const ExecutorKey> Make(const ExecutorQuery& query, Signatures known);
  bool Answers(const ExecutorQuery& query) const;
};
using ExecutorKeyPtr = std::shared_ptr<const ExecutorKey>;

class ExecutorPool;

// The use of an executor; gives it back when it goes. The executor's run() is empty then.
class ExecutorLease {
 public:
  ExecutorLease() = default;  // Empty.
  ExecutorLease(ExecutorLease&&) = default;
  ExecutorLease& operator=(ExecutorLease&& other);
  ~ExecutorLease();

  explicit operator bool() const { return !pooled_.empty(); }
  Executor* operator->() const { return pooled_.front().executor.get(); }
  Executor& operator*() const { return *operator->(); }
  const ExecutorKeyPtr& key() const { return pooled_.front().key; }

 private:
  friend class ExecutorPool;
  struct Pooled {
    ExecutorKeyPtr key;
    std::unique_ptr<Executor> executor;
    int64_t idle_bytes = 0;  // The executor's, while nobody uses it.
  };
  using List = std::list<Pooled>;

  ExecutorLease(std::shared_ptr<ExecutorPool> pool, List pooled) : pool_(std::move(pool)), pooled_(std::move(pooled)) {}

  std::shared_ptr<ExecutorPool> pool_;
  mutable List pooled_;  // One node of the pool's list, or none: moved between them without allocating.
};

class ExecutorCache {
 public:
  using Ready = std::function<void(absl::StatusOr<ExecutorLease>)>;

  // Keeps at most `max_idle` executors that nobody uses, with at most `max_idle_bytes` of memory; the least recently
  // used one goes first. An executor that holds, or needs of the arena, more than a quarter of these bytes is not kept
  // at all: the others stay.
  ExecutorCache(Lane& lane, Allocator& allocator, size_t max_idle = 32,
                int64_t max_idle_bytes = std::numeric_limits<int64_t>::max());

  // Calls `ready` on the lane's thread with an executor for `key`: an idle one, or one that is compiled now beside the
  // lane. `cancellation`, which may be null, ends the compiling, and the wait for a client's answer.
  void Checkout(ExecutorKeyPtr key, Ready ready, std::shared_ptr<Cancellation> cancellation = nullptr);
  // An idle executor, now; empty where there is none. For the lane's thread.
  ExecutorLease TakeIdle(const ExecutorKeyPtr& key);
  ExecutorLease TakeIdle(const ExecutorQuery& query);

  // Whether a run like this is to leave out the query's constants, as programs without them take less memory. Counts the run.
  // SkipConstants tells of one for whose constants there was no memory (IsByConstants); the next ones leave them out (UsesWithout).
  bool SkipsConstants(const ExecutorQuery& query);
  void SkipConstants(const ExecutorQuery& query);

  // Drops the executors that nobody uses.
  void Clear();

  // Executors compiled in the whole life of the cache.
  int64_t num_compiled() const;
  size_t num_idle() const;

 private:
  const std::shared_ptr<ExecutorPool> pool_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_EXECUTOR_CACHE_H_
