#include "engine/runtime/fair_threads.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/core/start_thread.h"

namespace gluond {
namespace {

thread_local WorkQueue* current_queue_of_thread = nullptr;
thread_local bool current_work_goes_on = false;

// A thread that has joined in waits so long for being wanted again.
constexpr std::chrono::seconds kStandby{2};
// The watcher looks so often in vain before it sleeps.
constexpr int kVainLooks = 100;
constexpr size_t kSpareTimers = 64;

class FunctionWork final : public Work {
 public:
  explicit FunctionWork(std::function<void()> function) : function_(std::move(function)) {}
  void Do() override {
    const std::unique_ptr<FunctionWork> self(this);
    function_();
  }

 private:
  const std::function<void()> function_;
};

}  // namespace

const WorkQueue* FairThreads::current_queue() { return current_queue_of_thread; }

FairThreads::FairThreads(Options options) : options_(std::move(options)) {
  MutexLock lock(mu_);
  Seat& first = seats_.emplace_back();
  StartOrExit(&first.thread, options_.name, [this, &first] { Loop(first); });
  while (seats_.size() < static_cast<size_t>(options_.threads)) {
    Seat& seat = seats_.emplace_back();
    if (TryToStart(&seat.thread, [this, &seat] { Loop(seat); })) continue;
    seats_.pop_back();  // Those that are there do the work.
    can_start_ = false;
    break;
  }
  if (options_.most_threads > options_.threads && !TryToStart(&watcher_, [this] { Watch(); })) can_start_ = false;
}

FairThreads::~FairThreads() {
  Drain();
  {
    MutexLock lock(mu_);
    ending_ = true;
  }
  wake_.NotifyAll();
  standby_.NotifyAll();
  watch_.NotifyAll();
  if (watcher_.joinable()) watcher_.join();
  for (std::list<Seat>* seats : {&seats_, &retired_}) {
    for (Seat& seat : *seats) seat.thread.join();
  }
}

void FairThreads::Post(WorkQueue& queue, Work* work) {
  MutexLock lock(mu_);
  order_.Add(queue, work, CurrentAccount(), Clock::now());
  Wake();
}

void FairThreads::Post(WorkQueue& queue, std::function<void()> work) {
  Post(queue, new FunctionWork(std::move(work)));
}

void FairThreads::Post(std::function<void()> work) {
  auto* const function = new FunctionWork(std::move(work));
  MutexLock lock(mu_);
  order_.Add(function, CurrentAccount(), Clock::now());
  Wake();
}

void FairThreads::DoAt(WorkQueue& queue, Clock::time_point when, Work* work) {
  MutexLock lock(mu_);
  const bool sooner = when < first_timer();
  Timer timer{&queue, work, CurrentAccount()};
  if (spare_timers_.empty()) {
    timer_of_[work] = timers_.insert({when, std::move(timer)});
  } else {
    Timers::node_type node = std::move(spare_timers_.back());
    spare_timers_.pop_back();
    node.key() = when;
    node.mapped() = std::move(timer);
    timer_of_[work] = timers_.insert(std::move(node));
  }
  if (sooner) Wake();  // A thread that sleeps does so for too long.
}

void FairThreads::Forget(WorkQueue& queue, Work* work) {
  MutexLock lock(mu_);
  const auto timer = timer_of_.find(work);
  if (timer == timer_of_.end()) {
    order_.Remove(queue, work);
  } else {
    EraseTimer(timer->second);
  }
}

FairThreads::Load FairThreads::load() {
  MutexLock lock(mu_);
  Load load{order_.load()};
  const Clock::time_point now = Clock::now();
  for (const Seat& seat : seats_) {
    if (seat.since == kIdle) continue;
    ++load.at_work;
    load.longest_work = std::max(load.longest_work, now - seat.since);
  }
  load.are_all = !can_start_ && load.at_work == static_cast<int64_t>(seats_.size());
  return load;
}

bool FairThreads::Drain() {
  MutexLock lock(mu_);
  if (order_.empty()) return false;
  while (!order_.empty()) drained_.Wait(mu_);
  return true;
}

void FairThreads::Wake() {
  posted_.store(true, std::memory_order_release);
  if (asleep_ > 0) wake_.NotifyOne();
  if (!watching_ && watcher_.joinable()) {
    watching_ = true;
    watch_.NotifyOne();
  }
}

void FairThreads::Loop(Seat& seat) {
  pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
  const std::shared_ptr<void> kept = options_.enter == nullptr ? nullptr : options_.enter();
  MutexLock lock(mu_);
  while (true) {
    const Clock::time_point now = Clock::now();
    PostDue(now);
    posted_.store(false, std::memory_order_relaxed);
    if (MayTake(seat, now)) {
      if (const std::optional<FairOrder::Piece> piece = order_.Take(now)) {
        Do(seat, *piece);
        continue;
      }
    }
    if (ending_) return;
    if (now >= seat.rests_at) {
      Rest(seat);
      continue;
    }
    Sleep(seat);
    if (seat.joined && !seat.taking) {
      const Clock::time_point until = Clock::now() + kStandby;
      while (!seat.taking && !ending_ && standby_.WaitUntil(mu_, until)) continue;
      if (seat.taking || ending_) continue;
      // Its own thread cannot join it; the watcher does.
      const auto self = std::find_if(seats_.begin(), seats_.end(), [&](const Seat& other) { return &other == &seat; });
      retired_.splice(retired_.end(), seats_, self);
      return;
    }
  }
}

void FairThreads::Do(Seat& seat, const FairOrder::Piece& piece) {
  seat.since = piece.begun;
  mu_.Unlock();
  {
    const ScopedAccount account(piece.account);
    current_queue_of_thread = piece.queue;
    piece.work->Do();
    current_queue_of_thread = nullptr;
  }
  const bool goes_on = std::exchange(current_work_goes_on, false);
  mu_.Lock();
  seat.since = kIdle;
  const Clock::time_point now = Clock::now();
  if (options_.rest != nullptr && !seat.joined) seat.rests_at = now + options_.rest_after;
  goes_on ? order_.Leave(piece, now) : order_.Done(piece, now);
  if (order_.has_groups() && asleep_ > 0 && order_.ready()) wake_.NotifyOne();
  if (order_.empty()) drained_.NotifyAll();
}

std::function<void()> FairThreads::Prolong() {
  current_work_goes_on = true;
  return [this, queue = current_queue_of_thread] {
    MutexLock lock(mu_);
    order_.End(*queue, Clock::now());
    if (order_.empty()) drained_.NotifyAll();
    Wake();
  };
}

void FairThreads::Rest(Seat& seat) {
  seat.rests_at = Clock::time_point::max();
  mu_.Unlock();
  options_.rest();
  mu_.Lock();
}

// Sleeps until there may be something to do.
void FairThreads::Sleep(Seat& seat) {
  if (!seat.taking) return;
  if (!seat.joined && options_.look.count() > 0) {
    Look();
    if (ending_) return;
  }
  // Work that was posted during the look may have woken a thread that must not take it.
  if (order_.ready() && MayTake(seat, Clock::now())) return;
  if (!seat.taking) return;
  Clock::time_point until = std::min(first_timer(), seat.rests_at);
  // One that has joined in looks now and then whether the first ones are free.
  if (seat.joined) until = std::min(until, Clock::now() + options_.patience);
  ++asleep_;
  if (until == Clock::time_point::max()) {
    wake_.Wait(mu_);
  } else {
    wake_.WaitUntil(mu_, until);
  }
  --asleep_;
}

// A moment's look before sleep: a client that waits for each answer sends its next call within it. Gives way to any
// other thread that wants the processor.
void FairThreads::Look() {
  mu_.Unlock();
  const bool may = options_.may_look == nullptr || options_.may_look();
  const Clock::time_point end = Clock::now() + (may ? options_.look : Clock::duration(0));
  while (!posted_.load(std::memory_order_acquire) && Clock::now() < end) std::this_thread::yield();
  mu_.Lock();
}

bool FairThreads::MayTake(Seat& seat, Clock::time_point now) {
  if (!seat.joined) return true;
  if (!seat.taking) return false;
  if (FirstAreHeld(now)) return true;
  seat.taking = false;
  if (asleep_ > 0) wake_.NotifyOne();  // The call that woke this thread may have been for another.
  return false;
}

bool FairThreads::FirstAreHeld(Clock::time_point now) const {
  return std::all_of(seats_.begin(), seats_.end(), [&](const Seat& seat) { return seat.joined || Held(seat, now); });
}

// Watches, while there is work, for works that hold all threads.
void FairThreads::Watch() {
  pthread_setname_np(pthread_self(), (options_.name.substr(0, 9) + "-watch").c_str());
  MutexLock lock(mu_);
  int vain = 0;
  while (!ending_) {
    if (vain > kVainLooks && retired_.empty()) {
      watching_ = false;
      while (!watching_ && !ending_) watch_.Wait(mu_);
      vain = 0;
    }
    watch_.WaitFor(mu_, options_.patience / 2);
    EndRetired();
    const Clock::time_point now = Clock::now();
    PostDue(now);
    vain = order_.ready() || seats_.size() > static_cast<size_t>(options_.threads) ? 0 : vain + 1;
    const bool held = std::all_of(seats_.begin(), seats_.end(),
                                  [&](const Seat& seat) { return !seat.taking || Held(seat, now); });
    if (order_.ready() && held && !ending_) JoinIn();
  }
}

void FairThreads::JoinIn() {
  auto wanted = std::count_if(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.taking; });
  for (Seat& seat : seats_) {
    if (wanted == 0 || seat.taking) continue;
    seat.taking = true;
    --wanted;
  }
  standby_.NotifyAll();
  for (; wanted > 0 && seats_.size() < static_cast<size_t>(options_.most_threads); --wanted) {
    Seat& seat = seats_.emplace_back();
    seat.joined = true;
    can_start_ = TryToStart(&seat.thread, [this, &seat] { Loop(seat); });
    if (can_start_) continue;
    seats_.pop_back();  // The others go on, and the next look tries again.
    return;
  }
}

void FairThreads::EndRetired() {
  std::list<Seat> ended;
  ended.swap(retired_);
  if (ended.empty()) return;
  mu_.Unlock();
  for (Seat& seat : ended) seat.thread.join();
  mu_.Lock();
}

void FairThreads::PostDue(Clock::time_point now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Timer due = EraseTimer(timers_.begin());
    order_.Add(*due.queue, due.work, std::move(due.account), now);
    Wake();
  }
}

FairThreads::Timer FairThreads::EraseTimer(Timers::iterator timer) {
  Timers::node_type node = timers_.extract(timer);
  Timer erased = std::move(node.mapped());
  timer_of_.erase(erased.work);
  if (spare_timers_.size() < kSpareTimers) spare_timers_.push_back(std::move(node));
  return erased;
}

FairThreads::Clock::time_point FairThreads::first_timer() const {
  return timers_.empty() ? Clock::time_point::max() : timers_.begin()->first;
}

}  // namespace gluond
