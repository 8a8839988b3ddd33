// PollThreads are threads that poll gRPC's connections. One thread at a time reads a connection, so any two connections
// that flood the server would take the two threads that gRPC 1.51 has (on few processors). With more threads than busy
// connections the kernel shares the processors between connections, as it does between programs.

#ifndef SERVER_NET_POLL_THREADS_H_
#define SERVER_NET_POLL_THREADS_H_

#include <memory>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"

namespace gluond::server {

class PollThreads {
 public:
  // `queue` is one of the server's, which nothing else uses.
  PollThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads);
  // Ends the threads. Requires that the server was shut down.
  ~PollThreads();

 private:
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_POLL_THREADS_H_
