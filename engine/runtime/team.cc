#include "engine/runtime/team.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "engine/core/start_thread.h"
#include "engine/runtime/account.h"
#include "engine/runtime/tuning.h"

namespace gluond {
namespace {

// More would only cost: the most processors that share a loop evenly.
constexpr int64_t kMostPieces = 64;

void Pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

// The processor's time that a thread has had.
int64_t TimeOf(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// Looks for a moment, and yields to any other thread that wants the processor. Returns whether `done` came
// true.
template <class Done>
bool LookFor(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + tuning::kTeamLook;
  do {
    if (done()) return true;
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// Moves the calling thread from `processor`, where another thread computes, if there is any choice. The kernel wakes
// a thread where its waker runs, and parts the two milliseconds later.
void MoveAway(int processor) {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return;
  cpu_set_t others = mask;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0) return;
  sched_setaffinity(0, sizeof(mask), &mask);
}

}  // namespace

// A thread that computes. The team's mutex guards it.
class Team::ThreadState {
 public:
  ThreadState() : thread_(gettid()) { pthread_getcpuclockid(pthread_self(), &clock_); }
  static ThreadState& OfThread() {
    static thread_local ThreadState thread;
    return thread;
  }

  // Begins to watch the thread, which works on the loop of that number.
  void Watch(unsigned loop) {
    watched_ = loop;
    seen_ = Clock::now();
    time_ = TimeOf(clock_);
  }
  // Whether the thread wants to run and did not, since Watch was last called for the same loop.
  bool IsPreempted(unsigned loop) {
    const unsigned before = watched_;
    const Clock::time_point seen = seen_;
    const int64_t time = time_;
    Watch(loop);
    const std::chrono::nanoseconds since = seen_ - seen;
    return before == loop && since > tuning::kTeamLook / 2 && time_ - time < since.count() / 4;
  }
  // Moves the thread to the caller's processor, which is about to be idle, until Release.
  void Pull() {
    const int here = sched_getcpu();
    cpu_set_t mask, only;
    if (pulled_ || here < 0 || sched_getaffinity(thread_, sizeof(mask), &mask) != 0 || !CPU_ISSET(here, &mask)) return;
    CPU_ZERO(&only);
    CPU_SET(here, &only);
    pulled_ = sched_setaffinity(thread_, sizeof(only), &only) == 0;
    if (pulled_) mask_ = mask;
  }
  // By the thread itself: lets others run that want the processor. Then the thread keeps the processor for as long as the
  // others had it: a program that takes all it gets has half. Returns whether others could run.
  bool Yield(Clock::time_point now) {
    if (now < keeps_until_) return false;
    std::this_thread::yield();
    const Clock::time_point back = Clock::now();
    keeps_until_ = back + (back - now);
    return true;
  }
  // By the thread itself.
  void Release() {
    if (!pulled_) return;
    pulled_ = false;
    sched_setaffinity(0, sizeof(mask_), &mask_);
  }

 private:
  const pid_t thread_;
  clockid_t clock_ = {};
  unsigned watched_ = 0;
  Clock::time_point seen_;
  int64_t time_ = 0;
  Clock::time_point keeps_until_;  // The thread's own.
  bool pulled_ = false;
  cpu_set_t mask_;  // Where it may run when it is not pulled.
};

struct Team::Helper {
  int number;  // From 1; the caller of a loop is 0.
  ThreadState* thread_state = nullptr;
  const Loop* loop = nullptr;  // It takes pieces of this loop.
  std::optional<bool> urgent;  // The party for whose loops its turns are as they are was so.
  std::thread thread;
};

struct Team::Loop {
  // The pieces with which one thread begins.
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };

  unsigned number;  // Among all so far.
  const absl::FunctionRef<void(int64_t, int64_t)>* body;
  int64_t n, piece;
  int threads;
  std::array<Share, kMostPieces> shares;  // The first `threads` of them.
  ThreadState* caller;
  Party* party;             // Null: none.
  const Account* account;   // The caller's, to be compared only.
  int processor;            // Where the caller began.
  bool caller_waits;        // For helpers' pieces: it computes nothing.
  std::atomic<int> inside;  // Helpers.

  CondVar done;

  bool HasPieces() const {
    return std::any_of(shares.begin(), shares.begin() + threads,
                       [](const Share& share) { return share.next.load(std::memory_order_relaxed) < share.end; });
  }
  // Computes pieces while there are some and go_on() is true, those of the thread's own share first.
  template <class GoOn>
  void Take(int number, const GoOn& go_on) {
    for (int i = 0; i < threads; ++i) {
      Share& share = shares[(number + i) % threads];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        const int64_t taken = share.next.fetch_add(1, std::memory_order_relaxed);
        if (taken >= share.end) break;
        (*body)(taken * piece, std::min(n, (taken + 1) * piece));
        if (!go_on()) return;
      }
    }
  }
};

Team::Team(int count)
    : follows_(count <= 0),
      count_(std::max(1, count)),
      times_throttled_(processors_.Read().throttled),
      next_follow_(Clock::time_point::min().time_since_epoch().count()) {
  Follow();
}

Team::~Team() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    begun_.fetch_add(1);
  }
  wake_.NotifyAll();
  for (Helper& helper : helpers_) helper.thread.join();
}

bool Team::throttled() {
  Follow();
  return throttled_.load(std::memory_order_relaxed);
}

void Team::Do(Party* party, int64_t n, int64_t grain, const absl::FunctionRef<void(int64_t, int64_t)>& body, int most) {
  if (n <= 0) return;
  const int64_t piece = std::max({grain, (n - 1) / kMostPieces + 1, int64_t{1}});
  if (piece >= n) return body(0, n);
  Follow();
  const int64_t pieces = (n - 1) / piece + 1;
  const int threads = static_cast<int>(std::min({pieces, int64_t{count()}, int64_t{most}}));
  const bool urgent = IsUrgent(party);
  if (threads == 1) {
    for (int64_t begin = 0; begin < n; begin += piece) {
      body(begin, std::min(n, begin + piece));
      if (!urgent) YieldToUrgent();
    }
    return;
  }
  Loop& loop = Start(party, n, piece, threads, body);
  loop.Take(0, [&] {
    if (!urgent) YieldToUrgent();
    return true;
  });
  End(loop);
}

void Team::AddUrgentWaiters(int64_t clients) {
  if (urgent_waiters_.fetch_add(clients, std::memory_order_relaxed) + clients > 0) return;
  yield_until_.store((Clock::now() + tuning::kUrgentAgain).time_since_epoch().count(), std::memory_order_relaxed);
}

// For a thread that computes for no urgent party, between two pieces. The threads that bring requests and take answers have
// little to do at a time. Without such pauses they wait for a processor at each step where long threads have all processors.
void Team::YieldToUrgent() {
  const bool has_waiters = urgent_waiters_.load(std::memory_order_relaxed) > 0;
  const Clock::rep until = yield_until_.load(std::memory_order_relaxed);
  if (!has_waiters && until == 0) return;  // No urgent party was ever asked.
  const Clock::time_point now = Clock::now();
  if (!has_waiters && now.time_since_epoch().count() >= until) return;
  if (ThreadState::OfThread().Yield(now)) times_yielded_.fetch_add(1, std::memory_order_relaxed);
}

// The mutex is held for a fraction of a microsecond: to sleep for it would take a hundred times as long.
void Team::Lock() {
  for (int i = 0; i < tuning::kLockTries; ++i) {
    if (mu_.TryLock()) return;
    Pause();
  }
  mu_.Lock();
}

Team::Loop& Team::Start(Party* party, int64_t n, int64_t piece, int threads,
                        const absl::FunctionRef<void(int64_t, int64_t)>& body) {
  Lock();
  const MutexLock lock(mu_, std::adopt_lock);
  while (helpers_.size() + 1 < static_cast<size_t>(threads)) {
    Helper& helper = helpers_.emplace_back();
    helper.number = static_cast<int>(helpers_.size());
    if (TryToStart(&helper.thread, [this, &helper] { Help(helper); })) continue;
    helpers_.pop_back();  // Those that are there compute.
    break;
  }
  if (spare_.empty()) spare_.push_back(std::make_unique<Loop>());
  Loop* const loop = spare_.back().release();
  spare_.pop_back();
  loop->body = &body;
  loop->n = n;
  loop->piece = piece;
  loop->threads = threads;
  const int64_t pieces = (n - 1) / piece + 1;
  for (int i = 0; i < threads; ++i) {
    loop->shares[i].next.store(pieces * i / threads, std::memory_order_relaxed);
    loop->shares[i].end = pieces * (i + 1) / threads;
  }
  loop->caller = &ThreadState::OfThread();
  loop->party = party;
  loop->account = CurrentAccount().get();
  loop->processor = sched_getcpu();
  loop->caller_waits = false;
  loop->inside.store(0, std::memory_order_relaxed);
  loops_.push_back(loop);
  under_way_.store(loops_.size(), std::memory_order_relaxed);
  if (party != nullptr) party->under_way_.fetch_add(1, std::memory_order_relaxed);
  loop->number = begun_.fetch_add(1, std::memory_order_release) + 1;
  if (looking_ == 0) WakeOne();
  return *loop;
}

// All pieces are taken. Those that helpers took may be under way.
void Team::End(Loop& loop) {
  LookFor([&] { return loop.inside.load(std::memory_order_acquire) == 0; });
  Lock();
  const MutexLock lock(mu_, std::adopt_lock);
  WaitFor(loop);
  loop.caller->Release();
  std::erase(loops_, &loop);
  under_way_.store(loops_.size(), std::memory_order_relaxed);
  if (loop.party != nullptr) loop.party->under_way_.fetch_sub(1, std::memory_order_relaxed);
  spare_.emplace_back(&loop);
}

void Team::WaitFor(Loop& loop) {
  loop.caller_waits = true;
  bool first = true;
  while (loop.inside.load(std::memory_order_relaxed) > 0) {
    for (Helper& helper : helpers_) {
      if (helper.loop != &loop) continue;
      if (first) {
        helper.thread_state->Watch(loop.number);
      } else if (helper.thread_state->IsPreempted(loop.number)) {
        helper.thread_state->Pull();
      }
    }
    first = false;
    loop.done.WaitFor(mu_, tuning::kPreemptionWatch);
  }
}

void Team::Help(Helper& helper) {
  pthread_setname_np(pthread_self(), "team");
  MutexLock lock(mu_);
  helper.thread_state = &ThreadState::OfThread();
  bool has_moved = false;
  while (!ending_) {
    Loop* const loop = Choose();
    if (loop == nullptr) {
      Rest();
    } else if (const int processor = loop->processor; !has_moved && sched_getcpu() == processor) {
      // Before the helper joins: nobody must wait for a thread that may be preempted.
      mu_.Unlock();
      MoveAway(processor);
      Lock();
      has_moved = true;
      continue;
    } else {
      Join(*loop, helper);
    }
    has_moved = false;
  }
}

// A loop that has pieces, or null: there is none, or as many threads compute as may. The party comes first that has the
// fewest threads for its weight with one more. Within the party, the account comes first for which the fewest threads
// compute, and of the account's loops one with the fewest helpers.
Team::Loop* Team::Choose() {
  if (ThreadsFor([](const Loop&) { return true; }) >= count_) return nullptr;
  Loop* best = nullptr;
  std::tuple<double, int, int> least;
  for (Loop* const loop : loops_) {
    const int inside = loop->inside.load(std::memory_order_relaxed);
    if (inside + 1 >= loop->threads || !loop->HasPieces()) continue;
    if (!IsUrgent(loop->party) && !MayHelpOthers()) continue;
    const int for_party = ThreadsFor([loop](const Loop& other) { return other.party == loop->party; });
    const int for_account = ThreadsFor([loop](const Loop& other) { return other.account == loop->account; });
    const std::tuple place((for_party + 1) / (loop->party == nullptr ? 1 : loop->party->weight_), for_account, inside);
    if (best != nullptr && least <= place) continue;
    best = loop;
    least = place;
  }
  return best;
}

// Whether one thread more may compute for others than urgent parties: one processor is left to the latter's clients.
bool Team::MayHelpOthers() const {
  return urgent_waiters_.load(std::memory_order_relaxed) == 0 ||
         ThreadsFor([](const Loop& loop) { return !IsUrgent(loop.party); }) + 1 < count_;
}

// How many threads compute for the loops that `counts` names.
template <class Counts>
int Team::ThreadsFor(const Counts& counts) const {
  int threads = 0;
  for (const Loop* const loop : loops_) {
    if (counts(*loop)) threads += loop->inside.load(std::memory_order_relaxed) + (loop->caller_waits ? 0 : 1);
  }
  return threads;
}

void Team::Join(Loop& loop, Helper& helper) {
  helper.loop = &loop;
  loop.inside.fetch_add(1, std::memory_order_relaxed);
  if (looking_ == 0 && loop.HasPieces()) WakeOne();
  mu_.Unlock();
  const bool urgent = IsUrgent(loop.party);
  if (helper.urgent != urgent) urgent ? TakeShortTurns() : TakeUsualTurns();
  helper.urgent = urgent;
  // Where other loops are under way, too, the helper chooses anew after each piece.
  loop.Take(helper.number, [&] {
    if (!urgent) YieldToUrgent();
    return under_way_.load(std::memory_order_relaxed) == 1 && (urgent || urgent_waiters_.load(std::memory_order_relaxed) == 0);
  });
  Lock();
  helper.thread_state->Release();
  helper.loop = nullptr;
  if (loop.inside.fetch_sub(1, std::memory_order_release) == 1 && loop.caller_waits) loop.done.NotifyOne();
}

// Waits for a loop, while it watches the callers of those whose last piece is under way.
void Team::Rest() {
  if (!throttled_.load(std::memory_order_relaxed)) {
    ++looking_;
    const unsigned before = begun_.load(std::memory_order_relaxed);
    mu_.Unlock();
    const bool begun = LookFor([&] { return begun_.load(std::memory_order_acquire) != before; });
    Lock();
    --looking_;
    if (begun) return;
  }
  for (const Loop* const loop : loops_) {
    if (!loop->caller_waits && loop->caller->IsPreempted(loop->number)) loop->caller->Pull();
  }
  if (ending_ || Choose() != nullptr) return;
  ++asleep_;
  if (loops_.empty()) {
    wake_.Wait(mu_);
  } else {
    wake_.WaitFor(mu_, tuning::kPreemptionWatch);
  }
  --asleep_;
}

void Team::WakeOne() {
  if (asleep_ > 0) wake_.NotifyOne();
}

// One thread at a time reads the process's share of the processors.
void Team::Follow() {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep due = next_follow_.load(std::memory_order_relaxed);
  if (now < due || !next_follow_.compare_exchange_strong(due, now + Clock::duration(tuning::kShareRefresh).count())) return;
  const ProcessorShare share = processors_.Read();
  if (follows_) count_.store(share.count, std::memory_order_relaxed);
  throttled_.store(times_throttled_.exchange(share.throttled) != share.throttled, std::memory_order_relaxed);
}

}  // namespace gluond
