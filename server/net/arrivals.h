// Arrivals counts the calls that gRPC has read and that have not begun. gRPC reads with many threads and begins calls
// with few, and a client that opens streams and resets them would fill what lies between without an end. Where too many
// calls wait there, a poll thread that reads one more waits for a moment, too. Thread-safe.

#ifndef SERVER_NET_ARRIVALS_H_
#define SERVER_NET_ARRIVALS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/core/mutex.h"
#include "grpcpp/grpcpp.h"

namespace gluond::server {

class Arrivals {
 public:
  // The server that `builder` makes tells `arrivals` of each call that it reads. Its generic service calls Begin.
  static void CountIn(std::shared_ptr<Arrivals> arrivals, grpc::ServerBuilder& builder);

  // Readers wait where more than `most` calls do.
  explicit Arrivals(int64_t most) : most_(most) {}

  // gRPC has read a call. Waits while there are too many, for a moment at most, where the calling thread may.
  void Read();
  // A call that was read has begun.
  void Begin();
  // The calling thread does nothing but read. gRPC's own threads, which begin calls, read some as well: if they waited,
  // they would wait for themselves.
  static void MayWaitHere();

  int64_t waiting() const { return waiting_; }

 private:
  const int64_t most_;
  std::atomic<int64_t> waiting_ = 0;
  Mutex mu_;
  CondVar fewer_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_ARRIVALS_H_
