// A GenericCall is gRPC's objects for one call of whatever method, and the operations on it. It is what gRPC's own reactors
// are, over a completion queue: those are told of each event by one of a few threads of gRPC, and of the end by another,
// which cost a fifth of a small call's time. Here the thread that polls the connection goes on.

#ifndef SERVER_RPC_GENERIC_CALL_H_
#define SERVER_RPC_GENERIC_CALL_H_

#include <atomic>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/net/queue_tag.h"

namespace gluond::server {

class GenericCall {
 public:
  // Hears what becomes of a call, on threads that poll, and never within one of the call's functions but Begin.
  class Reactor {
   public:
    // StartRead is done; not `ok`: no message comes any more.
    virtual void OnReadDone(bool ok) = 0;
    // StartWrite is done; not `ok`: the call has ended.
    virtual void OnWriteDone(bool ok) = 0;
    // The call has ended, and the client has not got the last word.
    virtual void OnCancel() = 0;
    // Last of all: the call is finished, and all that was started is done. The call lives until this returns.
    virtual void OnDone() = 0;

   protected:
    ~Reactor() = default;
  };
  // Gets the calls that come.
  class Acceptor {
   public:
    // Gives the call a reactor, and calls its Begin.
    virtual void Accept(GenericCall* call) = 0;
    // Last of all, for each Await: the call is gone, or none came.
    virtual void Gone() = 0;

   protected:
    ~Acceptor() = default;
  };

  GenericCall(const GenericCall&) = delete;
  GenericCall& operator=(const GenericCall&) = delete;

  // `acceptor` gets the next call of `service`, unless the server is shut down first. It outlives the poll threads, which
  // ask `queue` (poll_threads.h) until all calls are gone.
  static void Await(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue, Acceptor& acceptor);

  grpc::GenericServerContext& context() { return context_; }

  // To be set before anything is started.
  void set_reactor(Reactor* reactor) { reactor_ = reactor; }
  // From here on OnCancel and OnDone may be called, even before this returns. Once.
  void Begin();

  // As those of ServerBidiReactor. One read and one write at a time; each call is to be finished, once.
  void StartRead(grpc::ByteBuffer* message);
  void StartWrite(const grpc::ByteBuffer& message);
  void Finish(const grpc::Status& status);
  void WriteAndFinish(const grpc::ByteBuffer& message);
  // Finishes the call without a wait for the client: nothing of it is kept, whether he reads or not.
  void Abort(const grpc::Status& status);

  // Ends the call at once, whatever is under way. Not after OnDone.
  void Cancel() { context_.TryCancel(); }
  // Whether it is known by now that the call has ended, and that the client has not got the last word.
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_relaxed); }

 private:
  // Calls one of the functions below.
  template <void (GenericCall::*Function)(bool)>
  struct To final : QueueTag {
    explicit To(GenericCall* call) : call(call) {}
    void Done(bool ok) override;
    GenericCall* const call;
  };

  explicit GenericCall(Acceptor& acceptor) : acceptor_(acceptor) {}
  ~GenericCall() = default;
  void End();

  void Came(bool ok);
  void Ended(bool ok);
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void Finished(bool ok);
  void BeginOrEnd();
  void Release();

  Acceptor& acceptor_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  Reactor* reactor_ = nullptr;
  To<&GenericCall::Came> came_{this};
  To<&GenericCall::Ended> ended_{this};
  To<&GenericCall::ReadDone> read_{this};
  To<&GenericCall::WriteDone> written_{this};
  To<&GenericCall::Finished> finished_{this};
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> begun_or_ended_ = false;  // Begin and Ended come in either order.
  std::atomic<int> under_way_ = 2;            // Operations, the last word and the end among them.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_GENERIC_CALL_H_
