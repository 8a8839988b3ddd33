#include "server/net/poll_threads.h"

#include <pthread.h>

#include <utility>

#include "server/net/arrivals.h"

namespace gluond::server {

PollThreads::PollThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads) : queue_(std::move(queue)) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "grpc-poll");
      Arrivals::MayWaitHere();
      void* tag = nullptr;
      bool ok = false;
      // No call asks for this queue: polling is all that Next does here.
      while (queue_->Next(&tag, &ok)) continue;
    });
  }
}

PollThreads::~PollThreads() {
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace gluond::server
