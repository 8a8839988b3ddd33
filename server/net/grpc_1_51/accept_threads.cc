#include "server/net/grpc_1_51/accept_threads.h"

#include <pthread.h>

#include <utility>

#include "engine/core/start_thread.h"
#include "server/net/grpc_1_51/arrivals.h"

namespace gluond::server {

AcceptThreads::AcceptThreads(std::vector<std::unique_ptr<Acceptor>> acceptors) : acceptors_(std::move(acceptors)) {
  {
    MutexLock lock(mu_);
    pulse_.Rest();
  }
  for (const auto& acceptor : acceptors_) {
    StartOrExit(&threads_.emplace_back(), "new connections", [this, &acceptor = *acceptor] { Loop(acceptor); });
  }
}

AcceptThreads::~AcceptThreads() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void AcceptThreads::Accept(Descriptor connection) {
  MutexLock lock(mu_);
  if (waiting_.empty()) pulse_.Beat();
  waiting_.push_back(std::move(connection));
  changed_.NotifyOne();
}

void AcceptThreads::Loop(Acceptor& acceptor) {
  pthread_setname_np(pthread_self(), "grpc-accept");
  Arrivals::MayWaitHere();
  while (true) {
    Acceptor::NewConnectionParameters connection;
    {
      MutexLock lock(mu_);
      while (waiting_.empty() && !stopping_) changed_.Wait(mu_);
      if (stopping_) return;
      connection.fd = waiting_.front().Release();
      waiting_.pop_front();
      waiting_.empty() ? pulse_.Rest() : pulse_.Beat();
    }
    connection.listener_fd = -1;  // The listener is not gRPC's.
    acceptor.HandleNewConnection(&connection);
  }
}

}  // namespace gluond::server
