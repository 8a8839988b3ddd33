// PollDemand says how many threads are to poll gRPC's connections (poll_threads.h). With one there is nobody to whom gRPC
// would hand over at each event, which is a sixth of a small call's time. More are wanted where one is not enough, or where it
// reads one connection for so long that others wait.
//
// Needless where gRPC's EventEngine listens and polls with threads of its own: it listens since 1.60 (grpc/grpc, pull requests
// 34748 and 34851), and polls since 2025 (39706).

#ifndef SERVER_NET_GRPC_1_51_POLL_DEMAND_H_
#define SERVER_NET_GRPC_1_51_POLL_DEMAND_H_

#include <chrono>

namespace gluond::server {

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

}  // namespace gluond::server

#endif  // SERVER_NET_GRPC_1_51_POLL_DEMAND_H_
