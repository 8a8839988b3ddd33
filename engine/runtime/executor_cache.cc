#include "engine/runtime/executor_cache.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "engine/core/lru_map.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/await_fact.h"
#include "engine/runtime/cancellation_scope.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/shared_arena.h"

namespace gluond {
namespace {

struct KeyHash {
  using is_transparent = void;
  size_t operator()(const ExecutorKeyPtr& key) const { return key->hash; }
  size_t operator()(const ExecutorQuery& query) const { return query.hash(); }
};

bool SameOptions(const ExecutorOptions& a, const ExecutorOptions& b) {
  return a.is_train == b.is_train && a.pause_after == b.pause_after && a.constants == b.constants && a.added == b.added &&
         a.left_out == b.left_out;
}

struct KeyEqual {
  using is_transparent = void;
  bool operator()(const ExecutorKeyPtr& a, const ExecutorKeyPtr& b) const {
    if (a == b) return true;
    return a->hash == b->hash && a->graph == b->graph && SameOptions(a->options, b->options) &&
           absl::c_equal(a->inputs, b->inputs,
                         [](const Signature& x, const Signature& y) { return x.shape == y.shape && x.dtype == y.dtype; });
  }
  bool operator()(const ExecutorKeyPtr& key, const ExecutorQuery& query) const { return key->Answers(query); }
};

}  // namespace

size_t ExecutorQuery::hash() const {
  size_t hash = absl::HashOf(graph.get(), options.is_train);
  for (const Tensor& input : inputs) hash = absl::HashOf(hash, input.shape(), static_cast<int>(input.dtype()));
  return hash;
}

ExecutorKeyPtr ExecutorKey::Make(const ExecutorQuery& query, Signatures known) {
  std::vector<Signature> inputs;
  for (const Tensor& input : query.inputs) inputs.push_back({input.shape(), input.dtype()});
  return std::make_shared<const ExecutorKey>(
      ExecutorKey{query.graph, query.options, std::move(inputs), std::move(known), query.hash()});
}

bool ExecutorKey::Answers(const ExecutorQuery& query) const {
  return graph == query.graph && SameOptions(options, query.options) &&
         absl::c_equal(inputs, query.inputs,
                       [](const Signature& x, const Tensor& y) { return x.shape == y.shape() && x.dtype == y.dtype(); });
}

// The cache and its leases share an ExecutorPool.
class ExecutorPool : public std::enable_shared_from_this<ExecutorPool> {
 public:
  using List = ExecutorLease::List;

  ExecutorPool(Lane& lane, Allocator& allocator, size_t max_idle, int64_t max_idle_bytes)
      : lane_(lane),
        allocator_(allocator),
        arena_(std::make_shared<SharedArena>(allocator)),
        max_idle_(max_idle),
        max_idle_bytes_(max_idle_bytes) {}

  Lane& lane() const { return lane_; }

  // Empty when none is idle. `wanted`: a key or a query.
  template <class Wanted>
  ExecutorLease Take(const Wanted& wanted) {
    MutexLock lock(mu_);
    const auto it = by_key_.find(wanted);
    if (it == by_key_.end() || it->second.empty()) return {};
    List pooled;
    pooled.splice(pooled.begin(), idle_, it->second.back());
    idle_bytes_ -= pooled.front().idle_bytes;
    it->second.pop_back();
    return ExecutorLease(shared_from_this(), std::move(pooled));
  }

  absl::StatusOr<ExecutorLease> Compile(const ExecutorKeyPtr& key) {
    auto executor = Executor::Compile(*key->graph, key->known, key->options, lane_, allocator_, arena_);
    RETURN_IF_ERROR(executor.status());
    {
      MutexLock lock(mu_);
      ++num_compiled_;
    }
    List pooled;
    pooled.push_back({key, *std::move(executor)});
    return ExecutorLease(shared_from_this(), std::move(pooled));
  }

  void GiveBack(List pooled) {
    Executor& executor = *pooled.front().executor;
    // An operator that a failed run has left still uses its memory: it is not for others.
    if (!executor.idle()) return Forget(pooled.front().key);
    (void)executor.TakeRun();
    const int64_t bytes = pooled.front().idle_bytes = executor.own_bytes();
    if (std::max(executor.arena_bytes(), bytes) > max_idle_bytes_ / 4) return Forget(pooled.front().key);
    {
      MutexLock lock(mu_);
      std::vector<List::iterator>& same = by_key_[pooled.front().key];
      idle_.splice(idle_.begin(), pooled);
      idle_bytes_ += bytes;
      same.push_back(idle_.begin());
    }
    Trim(max_idle_);
  }

  // Drops the idle executors that were used least recently, but for `keep`, or fewer where these hold too much memory. The
  // arena counts, which they share, and by a quarter at most: another one's run may have needed more.
  void Trim(size_t keep) {
    List dropped;  // Destroyed after the lock is released.
    const int64_t most = max_idle_bytes_ - std::min(static_cast<int64_t>(arena_->bytes()), max_idle_bytes_ / 4);
    MutexLock lock(mu_);
    while (idle_.size() > keep || idle_bytes_ > most) {
      const auto last = std::prev(idle_.end());
      idle_bytes_ -= last->idle_bytes;
      const auto same = by_key_.find(last->key);
      std::erase(same->second, last);
      if (same->second.empty()) by_key_.erase(same);
      dropped.splice(dropped.end(), idle_, last);
    }
  }

  bool SkipsConstants(const ExecutorQuery& query) {
    MutexLock lock(mu_);
    UsesWithout* const without = without_.size() == 0 ? nullptr : without_.Find(query.hash());
    return without != nullptr && without->OneMore();
  }
  void SkipConstants(const ExecutorQuery& query) {
    MutexLock lock(mu_);
    const size_t hash = query.hash();
    UsesWithout* const without = without_.Find(hash);
    (without != nullptr ? *without : without_.Insert(hash, {})).Begin();
  }

  int64_t num_compiled() const {
    MutexLock lock(mu_);
    return num_compiled_;
  }
  size_t num_idle() const {
    MutexLock lock(mu_);
    return idle_.size();
  }

 private:
  // The executor does not come back.
  void Forget(const ExecutorKeyPtr& key) {
    MutexLock lock(mu_);
    const auto it = by_key_.find(key);
    if (it != by_key_.end() && it->second.empty()) by_key_.erase(it);
  }

  Lane& lane_;
  Allocator& allocator_;
  const std::shared_ptr<SharedArena> arena_;  // Runs on the lane take place one after the other.
  const size_t max_idle_;
  const int64_t max_idle_bytes_;

  mutable Mutex mu_;
  List idle_ ABSL_GUARDED_BY(mu_);  // The most recently used one first.
  int64_t idle_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // An entry is kept, empty, while its executors are out, so that giving one back allocates nothing.
  absl::flat_hash_map<ExecutorKeyPtr, std::vector<List::iterator>, KeyHash, KeyEqual> by_key_ ABSL_GUARDED_BY(mu_);
  int64_t num_compiled_ ABSL_GUARDED_BY(mu_) = 0;
  LruMap<size_t, UsesWithout> without_ ABSL_GUARDED_BY(mu_){64};  // Runs without the constants, by a query's hash.
};

ExecutorLease& ExecutorLease::operator=(ExecutorLease&& other) {
  if (this != &other) {
    ExecutorLease old(std::move(pool_), std::move(pooled_));
    pool_ = std::move(other.pool_);
    pooled_ = std::move(other.pooled_);
  }
  return *this;
}

ExecutorLease::~ExecutorLease() {
  if (!pooled_.empty()) pool_->GiveBack(std::move(pooled_));
}

// Where the compiler has to ask a client, it tries again when that has answered.
void CompileAside(std::shared_ptr<ExecutorPool> pool, ExecutorKeyPtr key, ExecutorCache::Ready ready,
                  std::shared_ptr<Cancellation> cancellation) {
  Lane& lane = pool->lane();
  lane.PostAside([&lane, pool = std::move(pool), key = std::move(key), ready = std::move(ready),
                  cancellation = std::move(cancellation)]() mutable {
    const CancellationScope scope(cancellation.get());
    auto lease = std::make_shared<absl::StatusOr<ExecutorLease>>(pool->Compile(key));
    lane.Post([&lane, lease = std::move(lease), pool = std::move(pool), key = std::move(key), ready = std::move(ready),
               cancellation = std::move(cancellation)] {
      const auto again = [pool, key, ready, cancellation](absl::Status answered) {
        answered.ok() ? CompileAside(pool, key, ready, cancellation) : ready(std::move(answered));
      };
      if (!AwaitFactOnLane(lease->status(), lane, cancellation, again)) ready(std::move(*lease));
    });
  });
}

ExecutorCache::ExecutorCache(Lane& lane, Allocator& allocator, size_t max_idle, int64_t max_idle_bytes)
    : pool_(std::make_shared<ExecutorPool>(lane, allocator, max_idle, max_idle_bytes)) {}

void ExecutorCache::Checkout(ExecutorKeyPtr key, Ready ready, std::shared_ptr<Cancellation> cancellation) {
  // `ready` is moved along: its contents go when the lane is through with it, and not later on another thread.
  pool_->lane().Post(
      [pool = pool_, key = std::move(key), ready = std::move(ready), cancellation = std::move(cancellation)]() mutable {
        if (ExecutorLease lease = pool->Take(key)) return ready(std::move(lease));
        CompileAside(std::move(pool), std::move(key), std::move(ready), std::move(cancellation));
      });
}

ExecutorLease ExecutorCache::TakeIdle(const ExecutorKeyPtr& key) { return pool_->Take(key); }
ExecutorLease ExecutorCache::TakeIdle(const ExecutorQuery& query) { return pool_->Take(query); }

bool ExecutorCache::SkipsConstants(const ExecutorQuery& query) { return pool_->SkipsConstants(query); }
void ExecutorCache::SkipConstants(const ExecutorQuery& query) { pool_->SkipConstants(query); }

void ExecutorCache::Clear() { pool_->Trim(0); }
int64_t ExecutorCache::num_compiled() const { return pool_->num_compiled(); }
size_t ExecutorCache::num_idle() const { return pool_->num_idle(); }

}  // namespace gluond
