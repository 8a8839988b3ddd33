// Arrivals holds back the threads that read calls faster than they are begun. gRPC reads a connection for as long as there is
// something to read, and keeps the calls that come in a queue without a limit. A client that opens streams and resets them
// would fill the queue, before the calls of others. After some calls a mark goes into the queue, and while that has not come
// out, and as many calls again have been read, readers wait. Thread-safe.
//
// Needless with gRPC 1.60, which caps the calls that nobody has taken (grpc/grpc, pull request 34782).

#ifndef SERVER_NET_GRPC_1_51_ARRIVALS_H_
#define SERVER_NET_GRPC_1_51_ARRIVALS_H_

#include <atomic>
#include <cstdint>

#include "engine/core/mutex.h"
#include "grpcpp/grpcpp.h"
#include "server/net/grpc_1_51/queue_mark.h"
#include "server/net/queue_tag.h"

namespace gluond::server {

class Arrivals final : private QueueTag {
 public:
  // The calls between two marks: no more than twice as many are in the queue, and one for each thread that reads.
  static constexpr int64_t kWindow = 64;

  // From here on marks go into `queue`, which poll threads ask (poll_threads.h), and which outlives this but for Stop.
  void Start(grpc::ServerCompletionQueue& queue);
  // No more marks. The queue may be shut down afterwards; this outlives it.
  void Stop();

  // A call has been read, by the calling thread. Waits where too many have not begun, for a moment at most, if that thread
  // may.
  void Read();
  // The calling thread may wait. Some that take calls from the queue must not: they would wait for themselves.
  static void MayWaitHere();

 private:
  void Done(bool ok) override;

  std::atomic<int64_t> read_ = 0;  // Calls since the last mark.
  Mutex mu_;
  CondVar out_;
  grpc::ServerCompletionQueue* queue_ ABSL_GUARDED_BY(mu_) = nullptr;  // Null: nobody waits.
  QueueMark mark_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_NET_GRPC_1_51_ARRIVALS_H_
