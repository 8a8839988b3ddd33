// A UnaryCall is a call of a method with one message from its client, from the first byte to the last. It has its request, its
// reply, and what it holds of limits and budgets. Methods have it as a Call (call.h).

#ifndef SERVER_RPC_UNARY_CALL_H_
#define SERVER_RPC_UNARY_CALL_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/cancellation.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/message.h"
#include "server/identity/owners.h"
#include "server/rpc/runner.h"
#include "server/rpc/sequence.h"
#include "server/rpc/shares.h"
#include "server/rpc/stream.h"
#include "server/wire/attachments.h"
#include "server/wire/wire_message.h"

namespace gluond::server {

class UnaryCall;
// Handles of a call: while there is one, the method has not let go of the call. Each may be used on any thread, one at a time.
using CallPtr = std::shared_ptr<UnaryCall>;

// A service has this for each of its methods.
struct UnaryMethod {
  const google::protobuf::Message* request = nullptr;  // Their types.
  const google::protobuf::Message* reply = nullptr;
  // Whether to make the request's tensors takes long. Null: it has none.
  std::function<bool(const google::protobuf::Message& request)> has_large_fill = nullptr;
  std::function<void(CallPtr)> answer = nullptr;
};

// The numbered call's place in its client's order; see sequence.h. 0: the call has no number.
struct Numbered {
  std::string client, model;
  uint64_t number = 0;
};

class UnaryCall final : public Stream {
 public:
  // Both outlive all calls.
  UnaryCall(Runner& runner, const UnaryMethod& service, const Opening& opening)
      : Stream(runner, opening),
        service_(service),
        memory_(TakeMemory()),
        call_bytes_(memory_.bytes()),
        cancellation_(std::make_shared<Cancellation>(deadline())) {}

  using Stream::runner;
  const google::protobuf::Message& request() const { return *request_; }
  google::protobuf::Message& reply() { return *reply_; }
  // Bytes of the request and of the reply that lie beside the messages.
  const Attachments& attachments() const { return attachments_; }
  Attachments& reply_attachments() { return reply_attachments_; }
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  bool numbered() const { return turn_ != nullptr; }
  // See Sequences::Effect. Nothing for a call without a number.
  void SetEffect(Sequences::Effect effect) {
    if (turn_ != nullptr) turn_->set_effect(effect);
  }
  // See Turn::Between. A call without a number goes on at once.
  void Between(std::function<void()> go_on) { turn_ == nullptr ? go_on() : turn_->Between(std::move(go_on)); }

  // Sends one more answer before the last, unless the one before it is not sent yet: then this does nothing, and
  // returns false. So a client that reads slowly gets fewer.
  bool TrySend(google::protobuf::Message* reply);
  // The first of these ends the call. OK sends the reply.
  void Finish(const absl::Status& status);
  // Ends a call that was applied and whose answer cannot be sent: `status` says why. The reply is kept for repetitions.
  void FinishApplied(const absl::Status& status);
  void FinishWithStoredAnswer(const std::string& answer);

 private:
  // The way from the bytes of the message to the method's own code: the call is admitted, parsed, qualified, weighed,
  // put in its client's order, and run. Each step ends the call or goes on with the next, on a thread that dispatch.h chooses.
  // `self` is a handle.
  void Admit(const CallPtr& self);
  void Parse(const CallPtr& self);
  void Qualify(const CallPtr& self);
  void Weigh(const CallPtr& self);
  void Order(const CallPtr& self);
  void Run(const CallPtr& self);
  void GoOn(const CallPtr& self, Weight weight, void (UnaryCall::*step)(const CallPtr& self));

  // Takes the call's part of the limits. RESOURCE_EXHAUSTED: there is none left.
  absl::Status Enter();
  // The most bytes that a request of the method may have once it is inflated.
  int64_t most_bytes() const { return method().is_short ? kMostShort : runner().limits.max_message_bytes; }
  // Makes the request and the reply, and parses into the first.
  absl::Status ParseRequest();
  // Makes a client's name for itself its own: two callers that chose the same name are two clients.
  std::string Scope(const std::string& client_id) const;

  void OnBegin() override { StartRead(); }
  void OnRead(Slices* request) override;
  void OnWritten(bool ok) override;
  void OnCancelled() override { cancellation_->Cancel(); }
  void OnOver() override;
  // The call is to end so, and not to begin where it has not.
  void Revoke(const absl::Status& why) override;
  absl::Status revoked() const { return is_revoked_ ? why_revoked_ : absl::OkStatus(); }

  // The last handle is gone.
  void Abandon();
  absl::Status Encode(const google::protobuf::Message& reply, Slices* bytes) const;
  // Tells the client of a numbered call's reply how many of the calls are durable.
  void SetDurable(google::protobuf::Message* reply) const;
  void ReadPhases();
  // Ends the call, which nobody else does.
  void Conclude(const absl::Status& status);
  // Sends the last word, where the reply may first be compressed, which takes long.
  void Send(const absl::Status& status, Slices reply);
  // The same where it may be done.
  void SendNow();
  void End();

  const UnaryMethod& service_;
  Reservation memory_;        // The call's, with the request's and the reply's.
  const int64_t call_bytes_;  // Without them.
  const std::shared_ptr<Cancellation> cancellation_;
  std::chrono::steady_clock::time_point came_;  // When its message had come.
  Slices received_;
  int64_t request_bytes_ = 0;
  bool is_compressed_ = false;  // The request; then the reply may be, too.
  bool entered_ = false;        // Set before the call is finished, and thus before OnOver.
  Shares::Permit permit_;
  Shares::Permit bytes_permit_;

  google::protobuf::Arena arena_;
  google::protobuf::Message* request_ = nullptr;  // In the arena, while there is a handle.
  google::protobuf::Message* reply_ = nullptr;
  Attachments attachments_, reply_attachments_;

  std::string client_;  // The client's name for itself, for the log.
  Audit audit_ = method().audit;
  std::vector<Touched> touched_;
  Owners::ClaimPtr claim_;  // The things that the call makes.
  Numbered numbered_;
  std::unique_ptr<Sequences::Turn> turn_;

  std::atomic<bool> finished_ = false;
  absl::Status why_revoked_;  // Set before is_revoked_, and to be read after it.
  std::atomic<bool> is_revoked_ = false;
  absl::Status last_status_;
  Slices last_reply_;
  Mutex mu_;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;  // A reply that is not the last.
  bool ends_ ABSL_GUARDED_BY(mu_) = false;        // The last reply is there.
  Reservation written_memory_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_RPC_UNARY_CALL_H_
