// A FairOrder chooses the next work for a pool of threads. Work lies in queues, and a queue's works are done one at a
// time, in the order of posting. Each account has used some time within the last second. The account comes first that
// will have used least when its next work ends; among equal accounts, the longest waiting. The next work is taken to last
// as long as the account's works before, or `longest` if they take longer. An account that was idle gets no credit: the
// account counts as having used as much as the account that came last. So an account with short works waits for few works
// of other accounts, however many accounts come anew. An account has one work under way at a time, so that no account
// takes all threads. Groups of accounts come before accounts. The same rule chooses a group, whose time counts for less
// the larger the group's share is, and then an account of that group. So a group's many accounts are one to other groups.
// While several groups have work, a group has at most one work under way more than its share allows beside each other
// group. Not thread-safe: its pool's mutex guards it.
//
//   order.Add(queue, work, CurrentAccount());
//   while (auto piece = order.Take(now)) { piece->work->Do(); order.Done(*piece, now_it_has_ended); }

#ifndef ENGINE_RUNTIME_FAIR_ORDER_H_
#define ENGINE_RUNTIME_FAIR_ORDER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/runtime/account.h"

namespace gluond {

// A Work is posted without allocating: it is a member or a base of the thing that it concerns. It lives until it is
// done, and is not posted again before.
class Work {
 public:
  virtual void Do() = 0;

 protected:
  ~Work() = default;

 private:
  friend class FairOrder;
  friend class WorkQueue;
  Work* next_ = nullptr;
  AccountPtr account_;
  std::chrono::steady_clock::time_point posted_at_;
};

// Works in the order of posting. Stays where it is, and lives longer than its works.
class WorkQueue {
 public:
  WorkQueue() = default;
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

 private:
  friend class FairOrder;
  bool empty() const { return head_ == nullptr; }
  void Push(Work* work);
  Work* Pop();
  bool Remove(Work* work);

  Work* head_ = nullptr;  // Linked by next_.
  Work** tail_ = &head_;
  bool running_ = false;  // A work of the queue is under way.
  uint64_t arrival_ = 0;  // When the first work began to wait.
};

class FairOrder {
 public:
  using Clock = std::chrono::steady_clock;

  // Longer works count as `longest`: other threads join in then. An account's first work counts as that long, too.
  explicit FairOrder(std::chrono::milliseconds longest) : longest_(longest) {}

  // A work to be done, and its place.
  struct Piece {
    WorkQueue* queue;
    Work* work;
    AccountPtr account;
    Clock::time_point begun;
  };

  void Add(WorkQueue& queue, Work* work, AccountPtr account, Clock::time_point now);
  // The same, in a queue that `account` has in this order.
  void Add(Work* work, AccountPtr account, Clock::time_point now);
  // Takes `work` out of `queue`. False: it is not there.
  bool Remove(WorkQueue& queue, Work* work);

  // The next piece; none when no account has work that may begin.
  std::optional<Piece> Take(Clock::time_point now);
  // The piece has ended: its account has used the time since it was taken.
  void Done(const Piece& piece, Clock::time_point now);
  // The same in two halves, in any order, for a piece that goes on elsewhere. Leave: the account's next work
  // may begin.
  void Leave(const Piece& piece, Clock::time_point now);
  // End: the queue's next work may begin.
  void End(WorkQueue& queue, Clock::time_point now);

  // How much there is to do, and how long it waits until it is taken.
  struct Load {
    int64_t waiting = 0;           // Works now.
    int64_t taken = 0;             // Works so far: those have waited so long
    Clock::duration waited = {};   // in all,
    Clock::duration longest = {};  // and one of them at most.
    Clock::duration worked = {};   // Those that have ended have held a thread so long in all.
  };
  const Load& load() const { return load_; }

  // Whether Take would give a piece.
  bool ready() const;
  // Whether there are several groups: the end of one's work may let several works of others begin.
  bool has_groups() const { return groups_.size() > 1; }
  // Nothing waits, and nothing is under way.
  bool empty() const { return load_.waiting == 0 && running_ == 0 && open_ == 0; }

 private:
  // The time for which somebody has held threads.
  struct Usage {
    double used = 0;  // Seconds, as of `at`: they fade within a second or so.
    Clock::time_point at;
    double length = 0;  // The seconds that a work takes, by the last ones.

    double Used(Clock::time_point now) const;
    void Add(double seconds, Clock::time_point now);
  };
  struct Member;
  struct Group : Usage {
    AccountGroupPtr group;            // Null: the accounts that are in none.
    std::vector<Member*> candidates;  // Those that may begin.
    int64_t members = 0;
    int64_t active = 0;   // Those with work that waits or is under way.
    int64_t running = 0;  // Works under way.
    Usage starting;       // As much as a member that comes anew counts as having used: what the member before had.

    double share() const { return group == nullptr ? 1 : group->share(); }
  };
  struct Member : Usage {
    AccountPtr account;
    Group* group = nullptr;
    WorkQueue own;
    std::vector<WorkQueue*> ready;  // Queues whose first work is this account's, in the order of arrival.
    bool running = false;
    bool active = false;  // As the group counts it.

    bool may_begin() const { return !running && !ready.empty(); }
    uint64_t arrival() const { return ready.front()->arrival_; }
  };

  // The least number of works under way, for a share of 1, of all active groups, and of those but for one.
  struct Least {
    const Group* whose = nullptr;
    double works = std::numeric_limits<double>::infinity();
    double others = std::numeric_limits<double>::infinity();
  };
  Least FindLeast() const;
  static bool MayBegin(const Group& group, const Least& least);

  Group& FindGroup(const AccountPtr& account, Clock::time_point now);
  Member& Find(const AccountPtr& account, Clock::time_point now);
  void ForgetIdle(Clock::time_point now);
  void MakeReady(WorkQueue& queue, Clock::time_point now);
  void Refresh(Member& member);
  // Whether somebody with `used` and an `arrival` comes before the best so far.
  static bool ComesFirst(double used, uint64_t arrival, double least, uint64_t first);
  double UsedAfterNext(const Usage& usage, Clock::time_point now) const;
  Member& FirstOf(const Group& group, Clock::time_point now) const;

  const std::chrono::duration<double> longest_;
  absl::flat_hash_map<const AccountGroup*, std::unique_ptr<Group>> groups_;
  absl::flat_hash_map<const Account*, std::unique_ptr<Member>> members_;
  std::vector<Group*> active_;
  std::vector<Group*> candidate_groups_;  // Those with members that may begin.
  Usage starting_;                        // The groups', in seconds for a share of 1.
  size_t forget_at_ = 64;                 // So many members are worth a look for idle ones.
  uint64_t arrivals_ = 0;
  Load load_;
  size_t running_ = 0;  // Pieces that were taken and not left,
  size_t open_ = 0;     // and those that have not ended.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_FAIR_ORDER_H_
