#include "server/net/poll_threads.h"

#include <pthread.h>

#include <utility>

#include "server/net/arrivals.h"
#include "server/net/queue_tag.h"

namespace gluond::server {
namespace {

// So many threads begin calls, whatever is read meanwhile.
constexpr int kNeverWait = 4;

}  // namespace

PollThreads::PollThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads) : queue_(std::move(queue)) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, may_wait = i >= kNeverWait] {
      if (may_wait) Arrivals::MayWaitHere();
      Poll();
    });
  }
}

PollThreads::~PollThreads() {
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void PollThreads::Poll() {
  pthread_setname_np(pthread_self(), "grpc-poll");
  void* tag = nullptr;
  bool ok = false;
  // An operation that is done at once, as a read of a message that has come, is the next one here: no other thread is woken
  // for it.
  while (queue_->DoThenAsyncNext(
             [&] {
               if (tag != nullptr) QueueTag::Of(tag).Done(ok);
             },
             &tag, &ok, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == grpc::CompletionQueue::GOT_EVENT) {
    continue;
  }
}

}  // namespace gluond::server
