#include "server/net/grpc_1_51/poll_threads.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "engine/core/start_thread.h"
#include "server/net/grpc_1_51/arrivals.h"

namespace gluond::server {
namespace {

// So many threads begin calls, whatever is read meanwhile.
constexpr int kNeverWait = 4;
// A mark is late after this, which is long for a thread that is awake.
constexpr std::chrono::milliseconds kLate{10};
// Marks follow each other in kLate; where there is nothing else, in twice the time each time, up to this.
constexpr std::chrono::milliseconds kCalm{100};
// The threads' work is looked at so often.
constexpr std::chrono::milliseconds kLook{100};

// Threads that work for a larger part of the time than this are too few, and for a smaller one too many. Half as many are
// not too few afterwards.
constexpr double kBusyPart = 0.8, kIdlePart = 0.3;

}  // namespace

void PollDemand::Late(Clock::time_point now) {
  if (now < held_until_) return;  // All threads are there.
  // Where nothing was late for longer than the last time held, that is forgotten.
  const bool again = threads_ > 1 || now - held_until_ < hold_;
  hold_ = again ? std::min<Clock::duration>(2 * hold_, kLongestHold) : kHold;
  held_until_ = now + hold_;
  threads_ = most_;
}

void PollDemand::Used(Clock::time_point now, Clock::duration time) {
  const double part = std::chrono::duration<double>(time) / (now - looked_) / threads_;
  looked_ = now;
  if (part > kBusyPart) {
    threads_ = std::min(2 * threads_, most_);
  } else if (part < kIdlePart && now >= held_until_) {
    threads_ = std::max(threads_ / 2, 1);
  }
}

PollThreads::PollThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads) : queue_(std::move(queue)), wanted_(1) {
  StartOrExit(&threads_.emplace_back(), "gRPC's events", [this] { Poll(0); });
  for (int i = 1; i < threads && TryToStart(&threads_.emplace_back(), [this, i] { Poll(i); }); ++i) continue;
  if (!threads_.back().joinable()) threads_.pop_back();  // Those that are there do.
  if (threads > 1) {
    StartOrExit(&watch_, "gRPC's watch", [this] { Watch(); });
  } else {
    polls_.Rest();  // Nobody sends marks.
    watches_.Rest();
  }
}

PollThreads::~PollThreads() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  if (watch_.joinable()) watch_.join();  // No more marks.
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void PollThreads::Poll(int number) {
  pthread_setname_np(pthread_self(), "grpc-poll");
  if (number >= kNeverWait) Arrivals::MayWaitHere();
  void* tag = nullptr;
  bool ok = false;
  const auto hear = [&] {
    if (tag == nullptr) return;
    if (tag != static_cast<QueueTag*>(this) && !is_busy_.load(std::memory_order_relaxed)) is_busy_ = true;
    QueueTag::Of(std::exchange(tag, nullptr)).Done(ok);
  };
  do {
    if (number >= wanted()) {
      hear();
      StayOut(number);
    }
    // An operation that is done at once, as a read of a message that has come, is the next one here: no other thread is
    // woken for it.
  } while (queue_->DoThenAsyncNext(hear, &tag, &ok, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == grpc::CompletionQueue::GOT_EVENT);
}

void PollThreads::StayOut(int number) {
  MutexLock lock(mu_);
  while (number >= wanted() && !ending_) changed_.Wait(mu_);
}

void PollThreads::Watch() {
  pthread_setname_np(pthread_self(), "grpc-watch");
  PollDemand demand(static_cast<int>(threads_.size()), Clock::now());
  Clock::time_point look = Clock::now() + kLook;
  Clock::duration calm{};
  MutexLock lock(mu_);
  while (!ending_) {
    watches_.Beat();
    if (!mark_.is_in_queue()) mark_.Put(*queue_, *this);
    const Clock::time_point late = Clock::now() + kLate;
    WaitUntil(late);
    const Clock::time_point now = Clock::now();
    if (mark_.is_in_queue()) demand.Late(now);
    if (now >= look) {
      look = now + kLook;
      demand.Used(now, Used());
    }
    if (demand.threads() != wanted()) {
      wanted_ = demand.threads();
      changed_.NotifyAll();
    }
    calm = is_busy_.exchange(false) ? Clock::duration(0) : std::min<Clock::duration>(2 * calm + kLate, kCalm - kLate);
    WaitUntil(now + calm);
  }
  polls_.Rest();
  watches_.Rest();
}

// Or until the end.
void PollThreads::WaitUntil(Clock::time_point when) {
  while (!ending_ && Clock::now() < when) changed_.WaitUntil(mu_, when);
}

void PollThreads::Done(bool) {
  MutexLock lock(mu_);
  mark_.Out();
  polls_.Beat();
}

// The time of the processors that the threads which poll now have had since they were last asked.
PollThreads::Clock::duration PollThreads::Used() {
  std::chrono::nanoseconds used(0);
  used_.resize(threads_.size());
  for (int i = 0; i < wanted(); ++i) {
    clockid_t clock;
    timespec time = {};
    if (pthread_getcpuclockid(threads_[i].native_handle(), &clock) == 0) clock_gettime(clock, &time);
    const std::chrono::nanoseconds now = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    used += now - std::exchange(used_[i], now);
  }
  return used;
}

}  // namespace gluond::server
