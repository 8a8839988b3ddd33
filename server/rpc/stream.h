// A Stream is one call of whatever method, from its headers on: messages as bytes, one after the other in either direction, and a
// Status at the end. Its GrpcCall brings and takes them (grpc_call.h). Calls with one message are streams, too (unary_call.h): a
// client may open any number of calls whose message never comes. The GrpcCall keeps the stream until the call is over.

#ifndef SERVER_RPC_STREAM_H_
#define SERVER_RPC_STREAM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/account.h"
#include "engine/runtime/budget.h"
#include "server/identity/identities.h"
#include "server/identity/reach.h"
#include "server/net/peers.h"
#include "server/rpc/access_log.h"
#include "server/rpc/audit_log.h"
#include "server/rpc/call_counts.h"
#include "server/rpc/grpc_call.h"
#include "server/rpc/method.h"
#include "server/rpc/trace_context.h"

namespace gluond::server {

struct Runner;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using Clock = std::chrono::steady_clock;
  // A call that has come.
  struct Opening {
    std::shared_ptr<GrpcCall> call;
    Guest* guest;          // The call's place among its peer's; the stream takes it.
    Reservation* memory;   // The call's own, from its headers on; the stream takes it, too.
    const Method* method;  // It outlives all streams, as all that follow do.
    CallCounts* counts;    // The method's.
    IdentityPtr caller;
    Reach reach;
  };

  // Makes a stream of a class, which the opening's call keeps until it is over. The maker calls Begin, once.
  template <class T, class... Arguments>
  static std::shared_ptr<T> Make(Arguments&&... arguments) {
    auto stream = std::make_shared<T>(std::forward<Arguments>(arguments)...);
    static_cast<Stream&>(*stream).call_->Attach(stream);
    return stream;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  // The stream may be over before this returns.
  void Begin();
  const PeerPtr& peer() const { return guest_.peer(); }
  // The account of the work that a caller of this reach has done for him by the peer.
  static AccountPtr AccountOf(Peer& peer, const Reach& reach) {
    return reach.tenant() == nullptr ? peer.account() : peer.AccountIn(reach.tenant()->group());
  }
  // Null: nobody asks who callers are, or the method is open.
  const IdentityPtr& caller() const { return caller_; }
  // The name of the caller, if it is one caller's alone; empty: nobody knows it.
  std::string caller_name() const { return caller_ == nullptr || caller_->is_anybodys ? "" : caller_->name; }
  // The names that the caller may say.
  const Reach& reach() const { return reach_; }
  const Method& method() const { return method_; }
  // The client's deadline, by this server's clock.
  Clock::time_point deadline() const { return deadline_; }
  // The client may have ended the call for its deadline, by its own clock.
  bool expired() const;

  // The metadata `x-request-id`, or a new id where the client sent none or a malformed one. The trailing metadata have it where
  // the call fails, or came with an id. By the thread that finishes the stream, before it does.
  const std::string& request_id();
  // The metadata `traceparent`; empty: the client sent none or a malformed one. Where it sent any, the trailing metadata
  // have that of the call's own span.
  std::string traceparent() const;
  // Facts for the call's lines in the logs: what it is about, as the model, and its phases. As request_id.
  void SetTarget(std::string target) { target_ = std::move(target); }
  const std::string& target() const { return target_; }
  CallPhases& phases() { return phases_; }

  // Ends the call at once, whatever is under way; OnCancelled follows, unless it is over. Requires: not OnOver yet.
  void Cancel() { call_->Cancel(); }
  // Cancels a call whose client was to take something by `now`, and has not.
  void CancelIfLate(Clock::time_point now) {
    if (now < take_by_.load()) return;
    WasTaken();
    Cancel();
  }
  // The caller's credential is no longer good, for this reason: the call is to end. On one thread at a time, before OnOver,
  // and again until the call has ended.
  virtual void Revoke(const absl::Status& /*why*/) { Cancel(); }

 protected:
  // `runner` outlives all streams.
  Stream(Runner& runner, const Opening& opening);

  Runner& runner() const { return runner_; }

  // Wants the next message: OnRead follows. One at a time.
  void StartRead() { call_->StartRead(); }
  // Sends a message: OnWritten follows. One at a time.
  void StartWrite(const Slices& message);
  // The last word, once, and by no other thread than a write. Every stream is to be finished, a cancelled one, too. A
  // message that is still being written comes first.
  void Finish(const absl::Status& status);
  // The same with a message before it, when none is being written.
  void WriteAndFinish(const Slices& message);

  // From here on the client has so long to take what is sent to it, until WasTaken. Otherwise the call is cancelled.
  void MustTakeWithin(Clock::duration time) { take_by_ = Clock::now() + time; }
  void WasTaken() { take_by_ = Clock::time_point::max(); }
  // The time that a client has for a reply of so many bytes.
  static Clock::duration TimeToTake(int64_t bytes);

  // The value of a key of the client's metadata; empty: it has none.
  absl::string_view Metadata(absl::string_view key) const { return call_->Metadata(key); }

  // The compression of the message that OnRead has.
  Encoding encoding() const { return encoding_; }
  // Inflates that message. One that may become large waits for its turn among all that is slow (engine/runtime/fair_semaphore.h),
  // so the thread is one that may wait. RESOURCE_EXHAUSTED names --max_message_bytes, which `most_bytes` is.
  absl::StatusOr<Slices> InflateInTurn(const Slices& slices, int64_t most_bytes, const ChargeInflated& charge) const;
  // The reply that is sent next may be compressed, for a client that takes such replies. Before the first is sent.
  void MayCompress() { call_->MayCompress(); }

  // The memory that the call is charged from its headers on. The taker keeps it until the call is finished.
  Reservation TakeMemory() { return std::move(memory_); }
  // Ends the call at once, and gives back all that gRPC has of it; the client is told why where he can be.
  void Abort(const absl::Status& status);

  // Whether it was the call that ended where OnRead had no message, and not the client's messages.
  bool IsBroken() const { return call_->is_cancelled(); }

  // A line of the log on the call, which fails with `status`.
  void LogFailure(const absl::Status& status, int64_t bytes = 0, Clock::duration time = {}, const std::string& client = "");
  // A line of the audit log, in the name of the caller. The stream itself tells of a call that was refused.
  void TellAudit(Audited audited);

 private:
  friend class GrpcCall;

  // The first to be called; the others may be called meanwhile, but for OnCancelled and OnOver.
  virtual void OnBegin() {}

  // The threads that poll call these, for the call's account, and never within one of the functions above.

  // Null: there are no more. The callee may take the message.
  virtual void OnRead(Slices* message) = 0;
  // Not `ok`: the call has ended.
  virtual void OnWritten(bool /*ok*/) {}
  // The client has ended the call, its connection broke, or Cancel. Not for calls that are over.
  virtual void OnCancelled() = 0;
  // Last of all: the stream is finished, and no other function is or will be called.
  virtual void OnOver() = 0;

  // The names that these have for the GrpcCall.
  void OnReadDone(Slices* message, Encoding encoding);
  void OnWriteDone(bool ok);
  void OnCancel();
  void OnDone();

  // The last word is about to be said.
  void Leave(const absl::Status& status);
  const TraceContext& trace();
  void AddTrailingMetadata(bool fails);
  void Count(const Slices& sent);
  void LogAccess();

  Runner& runner_;
  std::shared_ptr<GrpcCall> call_;  // Null when the call is over.
  const Method& method_;
  CallCounts& counts_;
  const Clock::time_point begun_ = Clock::now();
  const IdentityPtr caller_;
  const Reach reach_;
  std::string request_id_, target_;
  std::optional<TraceContext> trace_;
  CallPhases phases_;
  Guest guest_;
  Reservation memory_;
  const AccountPtr account_;  // The peer's; of a tenant's caller, the tenant's there.
  const Clock::time_point deadline_;
  std::atomic<Clock::time_point> take_by_ = Clock::time_point::max();
  Encoding encoding_ = Encoding::kNone;            // The last message's.
  int64_t bytes_in_ = 0, messages_in_ = 0;         // The reader's.
  int64_t bytes_out_ = 0, messages_out_ = 0;       // The writer's.
  absl::StatusCode code_ = absl::StatusCode::kOk;  // The last word.
  LogLevel level_ = LogLevel::kInfo;
  Clock::duration time_{0};  // From the headers to it.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_STREAM_H_
