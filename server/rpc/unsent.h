// Unsent: replies that gRPC has and the client has not taken. A client that reads too slowly, or not at all, loses the
// call, so that the reply's memory comes back. Thread-safe.

#ifndef SERVER_RPC_UNSENT_H_
#define SERVER_RPC_UNSENT_H_

#include <chrono>
#include <cstdint>
#include <list>

#include "engine/core/mutex.h"

namespace gluond::server {

class Stream;

class Unsent {
 public:
  using Clock = std::chrono::steady_clock;
  struct Reply {
    Stream* stream;  // Valid until Remove.
    Clock::time_point deadline;
    bool cancelled = false;
  };
  using Place = std::list<Reply>::iterator;

  // The time that a client has for a reply of so many bytes.
  static Clock::duration TimeFor(int64_t bytes);
  // A reply is about to be sent, and is to be taken by then.
  Place Add(Stream* stream, Clock::time_point deadline);
  // It has been taken, or the call has been cancelled.
  void Remove(Place place);
  // Cancels the calls whose time is up.
  void Sweep(Clock::time_point now);

 private:
  Mutex mu_;
  std::list<Reply> replies_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_RPC_UNSENT_H_
