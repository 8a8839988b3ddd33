#include "engine/runtime/fair_threads.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/core/start_thread.h"
#include "engine/runtime/tuning.h"

namespace gluond {
namespace {

thread_local WorkQueue* current_queue_of_thread = nullptr;
thread_local bool current_work_goes_on = false;

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
  PoolThread& first = threads_.emplace_back();
  StartOrExit(&first.os_thread, options_.name, [this, &first] { Loop(first); });
  while (threads_.size() < static_cast<size_t>(options_.threads)) {
    PoolThread& thread = threads_.emplace_back();
    if (TryToStart(&thread.os_thread, [this, &thread] { Loop(thread); })) continue;
    threads_.pop_back();  // Those that are there do the work.
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
  for (std::list<PoolThread>* list : {&threads_, &retired_}) {
    for (PoolThread& thread : *list) thread.os_thread.join();
  }
}

void FairThreads::Post(WorkQueue& queue, Work* work) {
  MutexLock lock(mu_);
  order_.Add(queue, work, CurrentAccount(), Clock::now());
  Wake();
}

void FairThreads::Post(WorkQueue& queue, std::function<void()> work) { Post(queue, new FunctionWork(std::move(work))); }

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
  for (const PoolThread& thread : threads_) {
    if (thread.since == kIdle) continue;
    ++load.at_work;
    load.longest_work = std::max(load.longest_work, now - thread.since);
  }
  load.are_all = !can_start_ && load.at_work == static_cast<int64_t>(threads_.size());
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

void FairThreads::Loop(PoolThread& thread) {
  pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
  const std::shared_ptr<void> kept = options_.enter == nullptr ? nullptr : options_.enter();
  MutexLock lock(mu_);
  while (true) {
    const Clock::time_point now = Clock::now();
    PostDue(now);
    posted_.store(false, std::memory_order_relaxed);
    if (MayTake(thread, now)) {
      if (const std::optional<FairOrder::Piece> piece = order_.Take(now)) {
        Do(thread, *piece);
        continue;
      }
    }
    if (ending_) return;
    if (now >= thread.rests_at) {
      Rest(thread);
      continue;
    }
    Sleep(thread);
    if (thread.joined && !thread.taking) {
      const Clock::time_point until = Clock::now() + tuning::kStandby;
      while (!thread.taking && !ending_ && standby_.WaitUntil(mu_, until)) continue;
      if (thread.taking || ending_) continue;
      // A thread cannot join itself: the watcher does.
      const auto self = std::find_if(threads_.begin(), threads_.end(), [&](const PoolThread& other) { return &other == &thread; });
      retired_.splice(retired_.end(), threads_, self);
      return;
    }
  }
}

void FairThreads::Do(PoolThread& thread, const FairOrder::Piece& piece) {
  thread.since = piece.begun;
  mu_.Unlock();
  {
    const ScopedAccount account(piece.account);
    current_queue_of_thread = piece.queue;
    piece.work->Do();
    current_queue_of_thread = nullptr;
  }
  const bool goes_on = std::exchange(current_work_goes_on, false);
  mu_.Lock();
  thread.since = kIdle;
  const Clock::time_point now = Clock::now();
  if (options_.rest != nullptr && !thread.joined) thread.rests_at = now + options_.rest_after;
  goes_on ? order_.Leave(piece, now) : order_.Done(piece, now);
  if (order_.has_groups() && asleep_ > 0 && order_.ready()) wake_.NotifyOne();
  if (order_.empty()) drained_.NotifyAll();
}

std::function<void()> FairThreads::Detach() {
  current_work_goes_on = true;
  return [this, queue = current_queue_of_thread] {
    MutexLock lock(mu_);
    order_.End(*queue, Clock::now());
    if (order_.empty()) drained_.NotifyAll();
    Wake();
  };
}

void FairThreads::Rest(PoolThread& thread) {
  thread.rests_at = Clock::time_point::max();
  mu_.Unlock();
  options_.rest();
  mu_.Lock();
}

// Sleeps until there may be something to do.
void FairThreads::Sleep(PoolThread& thread) {
  if (!thread.taking) return;
  if (!thread.joined && options_.look.count() > 0) {
    Look();
    if (ending_) return;
  }
  // Work that was posted during the look may have woken a thread that must not take it.
  if (order_.ready() && MayTake(thread, Clock::now())) return;
  if (!thread.taking) return;
  Clock::time_point until = std::min(first_timer(), thread.rests_at);
  // A thread that has joined in looks now and then whether the first threads are free.
  if (thread.joined) until = std::min(until, Clock::now() + options_.patience);
  ++asleep_;
  if (until == Clock::time_point::max()) {
    wake_.Wait(mu_);
  } else {
    wake_.WaitUntil(mu_, until);
  }
  --asleep_;
}

// A moment's look before sleep: a client that waits for each answer sends its next call within it. The look yields
// to any other thread that wants the processor.
void FairThreads::Look() {
  mu_.Unlock();
  const bool may = options_.may_look == nullptr || options_.may_look();
  const Clock::time_point end = Clock::now() + (may ? options_.look : Clock::duration(0));
  while (!posted_.load(std::memory_order_acquire) && Clock::now() < end) std::this_thread::yield();
  mu_.Lock();
}

bool FairThreads::MayTake(PoolThread& thread, Clock::time_point now) {
  if (!thread.joined) return true;
  if (!thread.taking) return false;
  if (FirstAreHeld(now)) return true;
  thread.taking = false;
  if (asleep_ > 0) wake_.NotifyOne();  // The call that woke this thread may have been for another.
  return false;
}

bool FairThreads::FirstAreHeld(Clock::time_point now) const {
  return std::all_of(threads_.begin(), threads_.end(),
                     [&](const PoolThread& thread) { return thread.joined || Held(thread, now); });
}

// Watches, while there is work, for works that hold all threads.
void FairThreads::Watch() {
  pthread_setname_np(pthread_self(), (options_.name.substr(0, 9) + "-watch").c_str());
  MutexLock lock(mu_);
  int vain = 0;
  while (!ending_) {
    if (vain > tuning::kVainLooks && retired_.empty()) {
      watching_ = false;
      while (!watching_ && !ending_) watch_.Wait(mu_);
      vain = 0;
    }
    watch_.WaitFor(mu_, options_.patience / 2);
    EndRetired();
    const Clock::time_point now = Clock::now();
    PostDue(now);
    vain = order_.ready() || threads_.size() > static_cast<size_t>(options_.threads) ? 0 : vain + 1;
    const bool held = std::all_of(threads_.begin(), threads_.end(),
                                  [&](const PoolThread& thread) { return !thread.taking || Held(thread, now); });
    if (order_.ready() && held && !ending_) JoinIn();
  }
}

void FairThreads::JoinIn() {
  auto wanted = std::count_if(threads_.begin(), threads_.end(), [](const PoolThread& thread) { return thread.taking; });
  for (PoolThread& thread : threads_) {
    if (wanted == 0 || thread.taking) continue;
    thread.taking = true;
    --wanted;
  }
  standby_.NotifyAll();
  for (; wanted > 0 && threads_.size() < static_cast<size_t>(options_.most_threads); --wanted) {
    PoolThread& thread = threads_.emplace_back();
    thread.joined = true;
    can_start_ = TryToStart(&thread.os_thread, [this, &thread] { Loop(thread); });
    if (can_start_) continue;
    threads_.pop_back();  // The others go on, and the next look tries again.
    return;
  }
}

void FairThreads::EndRetired() {
  std::list<PoolThread> ended;
  ended.swap(retired_);
  if (ended.empty()) return;
  mu_.Unlock();
  for (PoolThread& thread : ended) thread.os_thread.join();
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
