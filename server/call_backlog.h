// CallBacklog: calls that gRPC has made of what it read, and whose turn has not come. gRPC 1.51 has no limit for them: a
// client that opens streams and resets them fills the memory with calls faster than threads can throw them away. Where
// many wait, the threads that read connections make no more of them for a moment. Thread-safe.

#ifndef SERVER_CALL_BACKLOG_H_
#define SERVER_CALL_BACKLOG_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "grpcpp/grpcpp.h"

namespace gluond::server {

class CallBacklog {
 public:
  // The calling thread does nothing but read connections: it may be made to wait.
  static void MayWait();

  // What tells of new calls, for ServerBuilder::SetContextAllocator. The backlog outlives it.
  std::unique_ptr<grpc::ContextAllocator> Allocator();
  // The turn of one has come.
  void Begun() { waiting_.fetch_sub(1, std::memory_order_relaxed); }
  // Forgets calls that will not begin here: gRPC answers health and reflection itself. Called every second or so.
  void Sweep() { waiting_.store(0, std::memory_order_relaxed); }

 private:
  class Contexts;
  void Came();

  std::atomic<int64_t> waiting_ = 0;
};

}  // namespace gluond::server

#endif  // SERVER_CALL_BACKLOG_H_
