// Pulse is the clock of a loop that never does its users' work: of threads that poll, accept or sweep. Each turn stamps it. A
// loop that has things to do and stamps no more hangs, and a process with such a loop is no healthy one, whatever its other
// threads answer. Work that a client may make long, as an operator, stands in no loop with a pulse. Thread-safe, without a lock.
//
//   Pulse pulse("sweep");                 // From here on the process is looked at.
//   while (...) { pulse.Beat(); ... }     // A turn, which takes less than Pulse::kLongest.
//   pulse.Rest();                         // There is nothing to do, and the loop may wait for ever.

#ifndef SERVER_START_PULSE_H_
#define SERVER_START_PULSE_H_

#include <atomic>
#include <chrono>
#include <map>
#include <string>

namespace gluond::server {

class Pulse {
 public:
  using Clock = std::chrono::steady_clock;
  // A machine that is overloaded delays a turn by seconds.
  static constexpr std::chrono::seconds kLongest{30};

  // `loop`: its word, as an operator reads it. Several loops may have one.
  explicit Pulse(std::string loop);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  void Beat(Clock::time_point now = Clock::now()) { beaten_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }
  void Rest() { beaten_.store(kRests, std::memory_order_relaxed); }

  // The time since the last beat; zero: the loop rests.
  Clock::duration Silent(Clock::time_point now) const;

  // The loops of the process, each with its silence; of several with one word the longest one.
  static std::map<std::string, Clock::duration> All(Clock::time_point now = Clock::now());
  // A sentence on a loop that hangs, as "the loop 'sweep' has not gone round for 31 s"; empty: none does.
  static std::string WhatHangs(Clock::time_point now = Clock::now());

 private:
  static constexpr Clock::rep kRests = 0;

  const std::string loop_;
  std::atomic<Clock::rep> beaten_;
};

}  // namespace gluond::server

#endif  // SERVER_START_PULSE_H_
