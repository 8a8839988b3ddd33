// A GrpcCall carries one call of whatever method over gRPC: it brings the messages of a Stream (stream.h), and takes its answers.
// gRPC's own reactors would do the same. A reactor is told of each event by one of a few threads of gRPC, and of the end by
// another: a fifth of a small call's time. A GrpcCall stands on a completion queue, and the thread that polls the connection
// goes on.

#ifndef SERVER_RPC_GRPC_CALL_H_
#define SERVER_RPC_GRPC_CALL_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/net/queue_tag.h"
#include "server/wire/attachments.h"
#include "server/wire/inflate.h"

namespace gluond::server {

class Router;
class Stream;

class GrpcCall {
 public:
  // `router` gets the next call of `service`, unless the server is shut down first. It outlives the poll threads, which
  // ask `queue` (poll_threads.h) until all calls are gone.
  static void Await(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue, Router& router);
  // For Await alone.
  explicit GrpcCall(Router& router) : router_(router) {}
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  grpc::GenericServerContext& context() { return context_; }

  // The stream hears what becomes of the call, on threads that poll, and never within one of these functions but Begin.

  // Before anything is started. The call keeps the stream until its OnDone has returned.
  void Attach(std::shared_ptr<Stream> stream) { stream_ = std::move(stream); }
  // From here on OnCancel and OnDone may be called, even before this returns. Once.
  void Begin() { BeginOrEnd(); }
  // One read and one write at a time; each call is to be finished, once. The call may be over before these return.
  void StartRead();
  void StartWrite(const Slices& message);
  void Finish(const absl::Status& status);
  void WriteAndFinish(const Slices& message);
  // Finishes the call without a wait for the client: nothing of the call is kept, whether the client reads or not.
  void Abort(const absl::Status& status);
  // Ends the call at once, whatever is under way. Not after OnDone.
  void Cancel() { context_.TryCancel(); }
  // Whether it is known by now that the call has ended, and that the client has not got the last word.
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_relaxed); }
  // The value of a key of the client's metadata; empty: it has none.
  absl::string_view Metadata(absl::string_view key) const;
  // Before Finish.
  void AddTrailingMetadata(absl::string_view key, const std::string& value) {
    context_.AddTrailingMetadata(std::string(key), value);
  }
  // The client's deadline, by this server's clock.
  std::chrono::steady_clock::time_point deadline() const;
  // The reply that is sent next may be compressed, for a client that takes such replies. Before the first is sent.
  void MayCompress() { context_.set_compression_level(GRPC_COMPRESS_LEVEL_LOW); }

 private:
  // Calls one of the functions below.
  template <void (GrpcCall::*Function)(bool)>
  struct To final : QueueTag {
    explicit To(GrpcCall* call) : call(call) {}
    void Done(bool ok) override { (call->*Function)(ok); }
    GrpcCall* const call;
  };

  void End();

  void Came(bool ok);
  void Ended(bool ok);
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void Finished(bool) { Release(); }
  void BeginOrEnd();
  void Release();

  Router& router_;
  std::shared_ptr<GrpcCall> while_grpc_has_it_;  // This call, until gRPC has no tag of it.
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter messages_{&context_};
  std::shared_ptr<Stream> stream_;
  grpc::ByteBuffer received_, sent_;
  To<&GrpcCall::Came> came_{this};
  To<&GrpcCall::Ended> ended_{this};
  To<&GrpcCall::ReadDone> read_{this};
  To<&GrpcCall::WriteDone> written_{this};
  To<&GrpcCall::Finished> finished_{this};
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> begun_or_ended_ = false;  // Begin and Ended come in either order.
  std::atomic<int> under_way_ = 2;            // Operations, the last word and the end among them.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_GRPC_CALL_H_
