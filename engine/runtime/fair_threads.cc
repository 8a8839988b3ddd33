#include "engine/runtime/fair_threads.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>

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
  for (int i = 0; i < options_.threads; ++i) {
    Seat& seat = seats_.emplace_back();
    seat.thread = std::thread([this, &seat] { Loop(seat); });
  }
  if (options_.most_threads > options_.threads) watcher_ = std::thread([this] { Watch(); });
}

FairThreads::~FairThreads() {
  Drain();
  {
    std::lock_guard lock(mu_);
    ending_ = true;
  }
  wake_.notify_all();
  standby_.notify_all();
  watch_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  for (std::list<Seat>* seats : {&seats_, &retired_}) {
    for (Seat& seat : *seats) seat.thread.join();
  }
}

void FairThreads::Post(WorkQueue& queue, Work* work) {
  std::lock_guard lock(mu_);
  order_.Add(queue, work, CurrentAccount(), Clock::now());
  Wake();
}

void FairThreads::Post(WorkQueue& queue, std::function<void()> work) {
  Post(queue, new FunctionWork(std::move(work)));
}

void FairThreads::Post(std::function<void()> work) {
  auto* const function = new FunctionWork(std::move(work));
  std::lock_guard lock(mu_);
  order_.Add(function, CurrentAccount(), Clock::now());
  Wake();
}

void FairThreads::DoAt(WorkQueue& queue, Clock::time_point when, Work* work) {
  std::lock_guard lock(mu_);
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
  std::lock_guard lock(mu_);
  const auto timer = timer_of_.find(work);
  if (timer == timer_of_.end()) {
    order_.Remove(queue, work);
  } else {
    EraseTimer(timer->second);
  }
}

FairThreads::Load FairThreads::load() {
  std::lock_guard lock(mu_);
  return order_.load();
}

bool FairThreads::Drain() {
  std::unique_lock lock(mu_);
  if (order_.empty()) return false;
  drained_.wait(lock, [this] { return order_.empty(); });
  return true;
}

void FairThreads::Wake() {
  posted_.store(true, std::memory_order_release);
  if (asleep_ > 0) wake_.notify_one();
  if (!watching_ && watcher_.joinable()) {
    watching_ = true;
    watch_.notify_one();
  }
}

void FairThreads::Loop(Seat& seat) {
  pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
  const std::shared_ptr<void> kept = options_.enter == nullptr ? nullptr : options_.enter();
  std::unique_lock lock(mu_);
  while (true) {
    const Clock::time_point now = Clock::now();
    PostDue(now);
    posted_.store(false, std::memory_order_relaxed);
    if (MayTake(seat, now)) {
      if (const std::optional<FairOrder::Piece> piece = order_.Take(now)) {
        Do(lock, seat, *piece);
        continue;
      }
    }
    if (ending_) return;
    if (now >= seat.rests_at) {
      Rest(lock, seat);
      continue;
    }
    Sleep(lock, seat);
    if (seat.joined && !seat.taking) {
      if (standby_.wait_for(lock, kStandby, [&] { return seat.taking || ending_; })) continue;
      // Its own thread cannot join it; the watcher does.
      const auto self = std::find_if(seats_.begin(), seats_.end(), [&](const Seat& other) { return &other == &seat; });
      retired_.splice(retired_.end(), seats_, self);
      return;
    }
  }
}

void FairThreads::Do(std::unique_lock<std::mutex>& lock, Seat& seat, const FairOrder::Piece& piece) {
  seat.since = piece.begun;
  lock.unlock();
  {
    const ScopedAccount account(piece.account);
    current_queue_of_thread = piece.queue;
    piece.work->Do();
    current_queue_of_thread = nullptr;
  }
  const bool goes_on = std::exchange(current_work_goes_on, false);
  lock.lock();
  seat.since = kIdle;
  const Clock::time_point now = Clock::now();
  if (options_.rest != nullptr && !seat.joined) seat.rests_at = now + options_.rest_after;
  goes_on ? order_.Leave(piece, now) : order_.Done(piece, now);
  if (order_.empty()) drained_.notify_all();
}

std::function<void()> FairThreads::Prolong() {
  current_work_goes_on = true;
  return [this, queue = current_queue_of_thread] {
    std::lock_guard lock(mu_);
    order_.End(*queue, Clock::now());
    if (order_.empty()) drained_.notify_all();
    Wake();
  };
}

void FairThreads::Rest(std::unique_lock<std::mutex>& lock, Seat& seat) {
  seat.rests_at = Clock::time_point::max();
  lock.unlock();
  options_.rest();
  lock.lock();
}

// Sleeps until there may be something to do.
void FairThreads::Sleep(std::unique_lock<std::mutex>& lock, Seat& seat) {
  if (!seat.taking) return;
  if (!seat.joined && options_.look.count() > 0) {
    Look(lock);
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
    wake_.wait(lock);
  } else {
    wake_.wait_until(lock, until);
  }
  --asleep_;
}

// A moment's look before sleep: a client that waits for each answer sends its next call within it. Gives way to any
// other thread that wants the processor.
void FairThreads::Look(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const bool may = options_.may_look == nullptr || options_.may_look();
  const Clock::time_point end = Clock::now() + (may ? options_.look : Clock::duration(0));
  while (!posted_.load(std::memory_order_acquire) && Clock::now() < end) std::this_thread::yield();
  lock.lock();
}

bool FairThreads::MayTake(Seat& seat, Clock::time_point now) {
  if (!seat.joined) return true;
  if (!seat.taking) return false;
  if (FirstAreHeld(now)) return true;
  seat.taking = false;
  if (asleep_ > 0) wake_.notify_one();  // The call that woke this thread may have been for one of the first.
  return false;
}

bool FairThreads::FirstAreHeld(Clock::time_point now) const {
  return std::all_of(seats_.begin(), seats_.end(), [&](const Seat& seat) { return seat.joined || Held(seat, now); });
}

// Watches, while there is work, for works that hold all threads.
void FairThreads::Watch() {
  pthread_setname_np(pthread_self(), (options_.name.substr(0, 9) + "-watch").c_str());
  std::unique_lock lock(mu_);
  int vain = 0;
  while (!ending_) {
    if (vain > kVainLooks && retired_.empty()) {
      watching_ = false;
      watch_.wait(lock, [this] { return watching_ || ending_; });
      vain = 0;
    }
    watch_.wait_for(lock, options_.patience / 2);
    EndRetired(lock);
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
  standby_.notify_all();
  for (; wanted > 0 && seats_.size() < static_cast<size_t>(options_.most_threads); --wanted) {
    Seat& seat = seats_.emplace_back();
    seat.joined = true;
    seat.thread = std::thread([this, &seat] { Loop(seat); });
  }
}

void FairThreads::EndRetired(std::unique_lock<std::mutex>& lock) {
  std::list<Seat> ended;
  ended.swap(retired_);
  if (ended.empty()) return;
  lock.unlock();
  for (Seat& seat : ended) seat.thread.join();
  lock.lock();
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
