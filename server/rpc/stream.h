// A Stream is gRPC's side of one call of whatever method, from its headers on: messages as bytes, one after the other in
// either direction, and a Status at the end. To gRPC every method is such a stream: of a unary one it would tell nobody
// before the message has come, and a client may open any number of calls that have none.
//
// It stands on gRPC's C interface. The reactors of gRPC 1.51's C++ one hear of a stream's end by way of one thread more:
// a short call takes a tenth longer so, and what a finished one holds comes back later.

#ifndef SERVER_RPC_STREAM_H_
#define SERVER_RPC_STREAM_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "grpc/grpc.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "server/net/peers.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class Stream {
 public:
  using Clock = std::chrono::steady_clock;

  // A call that has come.
  struct Opening {
    grpc::CallbackServerContext* context;  // Valid until `close`.
    std::function<void()> close;           // Tells gRPC that nobody uses the call any more.
  };

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The call may end from now on. Called once, by whoever made the stream.
  void Begin();

  const PeerPtr& peer() const { return guest_.peer(); }
  // The client's, by this server's clock.
  Clock::time_point deadline() const { return deadline_; }
  // The client may have ended the call for its deadline, by its own clock.
  bool expired() const;

  // Ends the call at once, whatever is under way; OnCancel follows, unless it is over. Requires: not OnDone yet.
  void Cancel();

 protected:
  // A finished stream's client has so long, and no longer than its lease, to take what is being written to it.
  static constexpr std::chrono::seconds kLinger{5};

  Stream(Peers& peers, Opening opening);
  virtual ~Stream() = default;

  // Wants the next message: OnRead follows. One at a time.
  void StartRead();
  // Sends a message: OnWritten follows. One at a time.
  void StartWrite(const Slices& message);
  // The last word, once, and by no other thread than a write. Every stream is to be finished, a cancelled one, too. What
  // is still being written comes first.
  void Finish(const absl::Status& status);
  // The same with a message before it, when none is being written.
  void WriteAndFinish(const Slices& message);

  // Whether it was the call that ended where OnRead had no message, and not the client's messages.
  bool IsBroken() const { return grpc_call_failed_before_recv_message(call_) != 0; }

 private:
  // gRPC's threads call these, for the peer's account, and never within one of the functions above.

  // Null: there are no more. Whoever wants the message takes it.
  virtual void OnRead(Slices* message) = 0;
  // Not `ok`: the call has ended.
  virtual void OnWritten(bool /*ok*/) {}
  // The client has ended the call, its connection broke, or Cancel. Not for calls that are over.
  virtual void OnCancel() = 0;
  // Last of all: the stream is finished, and no other function is or will be called. May end the stream's life.
  virtual void OnDone() = 0;

  // Operations of gRPC's that are done together, and who hears of it.
  struct Batch : grpc_completion_queue_functor {
    Batch(Stream* stream, void (Stream::*done)(bool ok));
    ~Batch() { Clear(); }
    grpc_op& Add(grpc_op_type type);
    void Clear();

    Stream* const stream;
    void (Stream::*const done)(bool ok);
    grpc_op ops[3];
    size_t size = 0;
    grpc_byte_buffer* message = nullptr;  // The message that is being sent, or was received.
  };
  void Start(Batch& batch);
  void AddHeaders(Batch& batch);
  void AddMessage(Batch& batch, const Slices& message);
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void FinishDone(bool ok);
  void OverDone(bool ok);
  // One of the things that OnDone waits for is over.
  void Leave();

  Peers& peers_;
  grpc_call* const call_;
  Guest guest_;
  const Clock::time_point deadline_;
  std::function<void()> close_;
  Batch read_, write_, finish_, over_;
  int cancelled_ = 0;
  bool has_sent_headers_ = false;
  // How many things OnDone waits for: Begin, the call's end, Finish, and each read and write under way.
  std::atomic<int> awaited_ = 3;
};

// Makes a Stream of each call of one method.
class StreamHandler final : public grpc::internal::MethodHandler {
 public:
  using Start = std::function<Stream*(Stream::Opening opening)>;
  explicit StreamHandler(Start start) : start_(std::move(start)) {}

  void RunHandler(const HandlerParameter& call) override {
    start_({static_cast<grpc::CallbackServerContext*>(call.server_context), call.call_requester})->Begin();
  }

 private:
  const Start start_;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_STREAM_H_
