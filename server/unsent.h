// Unsent: replies that gRPC has and the client has not taken. A client that reads too slowly, or not at all, loses the
// call, so that the reply's memory comes back. Thread-safe.

#ifndef SERVER_UNSENT_H_
#define SERVER_UNSENT_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>

#include "grpcpp/grpcpp.h"

namespace gluond::server {

class Unsent {
 public:
  using Clock = std::chrono::steady_clock;
  struct Reply {
    grpc::CallbackServerContext* context;  // Valid until Remove.
    Clock::time_point deadline;
    bool cancelled = false;
  };
  using Place = std::list<Reply>::iterator;

  // A reply of `bytes` is about to be sent.
  Place Add(grpc::CallbackServerContext* context, int64_t bytes);
  // It has been taken, or the call has been cancelled.
  void Remove(Place place);
  // Cancels the calls whose time is up.
  void Sweep(Clock::time_point now);

 private:
  std::recursive_mutex mu_;  // A call may end within its TryCancel, and be removed.
  std::list<Reply> replies_;  // Guarded by mu_.
};

}  // namespace gluond::server

#endif  // SERVER_UNSENT_H_
