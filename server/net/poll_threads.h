// PollThreads are the threads that poll gRPC's connections, and that hear of what gRPC has done (queue_tag.h). One thread
// at a time reads a connection, so any two connections that flood the server would take two threads. With more threads
// than busy connections the kernel shares the processors between connections, as it does between programs.

#ifndef SERVER_NET_POLL_THREADS_H_
#define SERVER_NET_POLL_THREADS_H_

#include <memory>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"

namespace gluond::server {

class PollThreads {
 public:
  // Each tag in `queue`, which is the server's, points to a QueueTag.
  PollThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads);
  // Ends the threads, after all that is in the queue. Requires that the server was shut down, and that nobody adds to the
  // queue.
  ~PollThreads();

  grpc::ServerCompletionQueue& queue() { return *queue_; }

 private:
  void Poll();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_POLL_THREADS_H_
