#include "server/net/grpc_1_51/poll_demand.h"

#include <algorithm>

namespace gluond::server {
namespace {

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

}  // namespace gluond::server
