// AcceptThreads give new connections to gRPC. A thread that does so begins to read the connection, and a flood keeps the thread
// for as long as the flood lasts. With one thread for all, 16 floods kept a new client waiting for 20 s. Thread-safe.
//
// The threads that poll (poll_threads.h) are others. gRPC 1.51 wakes none of those for something new while one of them
// has yet to finish what it has read.
//
// Needless where gRPC's EventEngine listens and polls with threads of its own: it listens since 1.60 (grpc/grpc, pull requests
// 34748 and 34851), and polls since 2025 (39706).

#ifndef SERVER_NET_GRPC_1_51_ACCEPT_THREADS_H_
#define SERVER_NET_GRPC_1_51_ACCEPT_THREADS_H_

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "engine/core/mutex.h"
#include "grpcpp/grpcpp.h"
#include "server/net/descriptor.h"
#include "server/start/pulse.h"

namespace gluond::server {

class AcceptThreads {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  // A thread for each acceptor, since one acceptor takes one connection at a time.
  explicit AcceptThreads(std::vector<std::unique_ptr<Acceptor>> acceptors);
  // Ends the threads, and closes connections that gRPC does not have yet.
  ~AcceptThreads();

  // Gives gRPC a connection, soon.
  void Accept(Descriptor connection);

 private:
  void Loop(Acceptor& acceptor);

  const std::vector<std::unique_ptr<Acceptor>> acceptors_;
  Mutex mu_;
  CondVar changed_;
  Pulse pulse_ ABSL_GUARDED_BY(mu_){"grpc-accept"};  // A thread has taken a connection.
  std::deque<Descriptor> waiting_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_GRPC_1_51_ACCEPT_THREADS_H_
