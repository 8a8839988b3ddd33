// A QueueMark goes through gRPC's completion queue behind all that is there, and so tells how late the threads that poll are.
//
// Needless with gRPC 1.60, which caps the calls that nobody has taken (grpc/grpc, pull request 34782).

#ifndef SERVER_NET_GRPC_1_51_QUEUE_MARK_H_
#define SERVER_NET_GRPC_1_51_QUEUE_MARK_H_

#include <memory>

#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "server/net/queue_tag.h"

namespace gluond::server {

class QueueMark {
 public:
  bool is_in_queue() const { return alarm_ != nullptr; }
  // Requires: it is in no queue. `owner` is told when it comes out, and calls Out then; it has no other operation there.
  void Put(grpc::CompletionQueue& queue, QueueTag& owner) {
    alarm_ = std::make_unique<grpc::Alarm>();
    // An alarm that goes off would wake gRPC's timers, too; one that is cancelled is in the queue at once.
    alarm_->Set(&queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), owner.tag());
    alarm_->Cancel();
  }
  void Out() { alarm_ = nullptr; }

 private:
  std::unique_ptr<grpc::Alarm> alarm_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_GRPC_1_51_QUEUE_MARK_H_
