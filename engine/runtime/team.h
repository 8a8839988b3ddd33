// Team: the compute threads that a CPU's lanes share. A loop is cut into pieces, and each running thread takes the next
// piece. The thread that asks for the loop computes, too, and helpers join that thread. So a thread that the kernel has
// preempted, for a neighbour on the machine, delays a piece and not the loop.
//
//   Team team(0);
//   team.ParallelFor(n, grain, [&](int64_t begin, int64_t end) { ... });
//
// * Pieces depend on n and grain only: results have the same bits however many threads there are, and whichever come.
// * Each thread begins with a share of the pieces, so that a tensor's part stays in one processor's cache from operator
//   to operator. A thread that has no pieces left takes pieces from the shares of other threads.
// * A loop ends when its last piece does. Where that piece's thread has been preempted, a waiting thread gives it
//   the processor that the wait would leave idle: the kernel's own balance comes milliseconds later.
// * Helpers look for work for a moment before they sleep, but not while a quota throttles the process.
// * Loops of several lanes share the helpers evenly, piece by piece. Parties of different weight share the helpers by
//   weight.
// * While a client waits for an urgent party, threads of other parties yield after each piece, and leave that client
//   a processor.
//
// Thread-safe. Loops may be nested.

#ifndef ENGINE_RUNTIME_TEAM_H_
#define ENGINE_RUNTIME_TEAM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/mutex.h"
#include "engine/core/op_context.h"
#include "engine/runtime/processors.h"

namespace gluond {

class Team final : public Threads {
 public:
  // A party to the team, as the lanes that train and those that serve. While loops of several parties are under way, a
  // helper joins the party that has the fewest threads for its weight. The thread that asks for a loop computes in any
  // case: a party has one thread at least for each of its loops.
  class Party final : public Threads {
   public:
    // Requires: `weight` is above 0. `urgent`: helpers take short turns (processors.h) while they work for the party, and
    // AddUrgentWaiters counts.
    Party(std::shared_ptr<Team> team, double weight, bool urgent) : team_(std::move(team)), weight_(weight), urgent_(urgent) {}

    int count() const override { return team_->count(); }
    void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body, int most) override {
      team_->Do(this, n, grain, body, most);
    }
    Team& team() const { return *team_; }
    // So many clients more wait for the party's results, from their requests to their answers; below 0: so many fewer.
    void AddUrgentWaiters(int64_t clients) {
      if (urgent_) team_->AddUrgentWaiters(clients);
    }
    // Whether loops of other parties are under way.
    bool others_compute() const {
      return team_->under_way_.load(std::memory_order_relaxed) > under_way_.load(std::memory_order_relaxed);
    }

   private:
    friend class Team;
    const std::shared_ptr<Team> team_;
    const double weight_;
    const bool urgent_;
    std::atomic<size_t> under_way_ = 0;  // Loops. Written under the team's mu_.
  };

  // `count`: of the threads that compute, the caller of a loop among them; 0: one for each processor that this process
  // may use, followed while that changes.
  explicit Team(int count);
  ~Team() override;

  int count() const override { return count_.load(std::memory_order_relaxed); }
  // Whether a quota has stopped the process within the last seconds. Then threads that look for work take time from
  // threads that compute.
  bool throttled();
  // How often threads have yielded to an urgent party's clients.
  int64_t times_yielded() const { return times_yielded_.load(std::memory_order_relaxed); }

  // A loop of no party, which has the weight 1.
  void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body, int most) override {
    Do(nullptr, n, grain, body, most);
  }

 private:
  using Clock = std::chrono::steady_clock;
  class ThreadState;
  struct Helper;
  struct Loop;

  static bool IsUrgent(const Party* party) { return party != nullptr && party->urgent_; }
  void AddUrgentWaiters(int64_t clients);
  void YieldToUrgent();
  void Do(Party* party, int64_t n, int64_t grain, const absl::FunctionRef<void(int64_t, int64_t)>& body, int most);
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_);
  Loop& Start(Party* party, int64_t n, int64_t piece, int threads, const absl::FunctionRef<void(int64_t, int64_t)>& body);
  void End(Loop& loop);
  void WaitFor(Loop& loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Help(Helper& helper);
  Loop* Choose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayHelpOthers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  template <class Counts>
  int ThreadsFor(const Counts& counts) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Join(Loop& loop, Helper& helper) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Rest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Follow();

  const bool follows_;
  const Processors processors_;
  std::atomic<int> count_;
  std::atomic<bool> throttled_ = false;
  std::atomic<int64_t> times_throttled_;
  std::atomic<Clock::rep> next_follow_;
  std::atomic<int64_t> urgent_waiters_ = 0;  // Clients that wait for urgent parties.
  std::atomic<Clock::rep> yield_until_ = 0;  // Where none waits: more are likely to come.
  std::atomic<int64_t> times_yielded_ = 0;

  Mutex mu_;
  CondVar wake_;
  std::vector<std::unique_ptr<Loop>> spare_ ABSL_GUARDED_BY(mu_);  // Used again, so that a loop allocates nothing.
  std::vector<Loop*> loops_ ABSL_GUARDED_BY(mu_);                  // Under way.
  std::atomic<size_t> under_way_ = 0;                              // Their number. Written under mu_.
  std::atomic<unsigned> begun_ = 0;  // All so far: it changes under a helper that looks for work. Written under mu_.
  std::list<Helper> helpers_ ABSL_GUARDED_BY(mu_);
  int looking_ ABSL_GUARDED_BY(mu_) = 0;
  int asleep_ ABSL_GUARDED_BY(mu_) = 0;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_TEAM_H_
