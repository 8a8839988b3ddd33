// PollThreads are the threads that poll gRPC's connections, and that hear of what gRPC has done (queue_tag.h). One thread at a
// time reads a connection, so any two connections that flood the server would take two threads. With more threads than busy
// connections the kernel shares the processors between connections, as it does between programs. While the first thread is
// enough for all of them, the others stay out (PollDemand). A mark goes through the queue again and again, and where the
// mark does not come out at once, they come.
//
// Needless where gRPC's EventEngine listens and polls with threads of its own: it listens since 1.60 (grpc/grpc, pull requests
// 34748 and 34851), and polls since 2025 (39706).

#ifndef SERVER_NET_GRPC_1_51_POLL_THREADS_H_
#define SERVER_NET_GRPC_1_51_POLL_THREADS_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "engine/core/mutex.h"
#include "grpcpp/grpcpp.h"
#include "server/net/grpc_1_51/queue_mark.h"
#include "server/net/queue_tag.h"
#include "server/start/pulse.h"

namespace gluond::server {

// PollDemand says how many threads are to poll gRPC's connections (poll_threads.h). With one there is nobody to whom gRPC
// would hand over at each event, which is a sixth of a small call's time. More are wanted where one is not enough, or where it
// reads one connection for so long that others wait.
class PollDemand {
 public:
  using Clock = std::chrono::steady_clock;
  // After something was late there are all threads for so long, for twice as long the next time, and so on, up to the second.
  static constexpr std::chrono::seconds kHold{1}, kLongestHold{64};

  // From 1 to `most` threads.
  PollDemand(int most, Clock::time_point now) : most_(most), looked_(now), held_until_(now) {}

  // Something that should have come out at once did not: all threads are wanted.
  void Late(Clock::time_point now);
  // The threads have had `time` of the processors in all, since the last call.
  void Used(Clock::time_point now, Clock::duration time);

  int threads() const { return threads_; }

 private:
  const int most_;
  int threads_ = 1;
  Clock::time_point looked_;
  Clock::time_point held_until_;
  Clock::duration hold_ = kHold;
};

class PollThreads final : private QueueTag {
 public:
  // `threads` at most. Each tag in `queue`, which is the server's, points to a QueueTag.
  PollThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads);
  // Ends the threads, after all that is in the queue. Requires that the server was shut down, and that nobody adds to the
  // queue.
  ~PollThreads();

  grpc::ServerCompletionQueue& queue() { return *queue_; }
  // Those that poll now.
  int wanted() const { return wanted_.load(std::memory_order_relaxed); }

 private:
  using Clock = PollDemand::Clock;

  void Poll(int number);
  void StayOut(int number);
  void Watch();
  void WaitUntil(Clock::time_point when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Clock::duration Used();
  void Done(bool ok) override;

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::atomic<int> wanted_;
  std::atomic<bool> is_busy_ = false;  // Something else than a mark has come out.

  Mutex mu_;
  CondVar changed_;
  QueueMark mark_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;

  Pulse polls_{"grpc-poll"};  // A mark has come out.
  Pulse watches_{"grpc-watch"};

  std::vector<std::thread> threads_;
  std::vector<std::chrono::nanoseconds> used_;  // By each, when watch_ last asked; watch_ alone uses it.
  std::thread watch_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_GRPC_1_51_POLL_THREADS_H_
