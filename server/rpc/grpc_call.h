// A GrpcCall carries one call of whatever method over gRPC. gRPC's own reactors would do the same. A reactor is told of each
// event by one of a few threads of gRPC, and of the end by another: a fifth of a small call's time. A GrpcCall stands on a
// completion queue, and the thread that polls the connection goes on.

#ifndef SERVER_RPC_GRPC_CALL_H_
#define SERVER_RPC_GRPC_CALL_H_

#include <atomic>
#include <memory>
#include <string>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/net/queue_tag.h"
#include "server/rpc/carrier.h"

namespace gluond::server {

class GrpcCall final : public Carrier {
 public:
  // Gets the calls that come.
  class Acceptor {
   public:
    // Makes a listener for the call, and calls its Begin.
    virtual void Accept(std::shared_ptr<GrpcCall> call) = 0;
    // Last of all, for each Await: gRPC has nothing of the call any more, or none came.
    virtual void Gone() = 0;

   protected:
    ~Acceptor() = default;
  };

  // `acceptor` gets the next call of `service`, unless the server is shut down first. It outlives the poll threads, which
  // ask `queue` (poll_threads.h) until all calls are gone.
  static void Await(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue, Acceptor& acceptor);
  // For Await alone.
  explicit GrpcCall(Acceptor& acceptor) : acceptor_(acceptor) {}

  grpc::GenericServerContext& context() { return context_; }

  void Attach(std::shared_ptr<Listener> listener) override { listener_ = std::move(listener); }
  void Begin() override { BeginOrEnd(); }
  void StartRead() override;
  void StartWrite(const Slices& message) override;
  void Finish(const absl::Status& status) override;
  void WriteAndFinish(const Slices& message) override;
  void Abort(const absl::Status& status) override;
  void Cancel() override { context_.TryCancel(); }
  bool is_cancelled() const override { return is_cancelled_.load(std::memory_order_relaxed); }
  absl::string_view Metadata(absl::string_view key) const override;
  void AddTrailingMetadata(absl::string_view key, const std::string& value) override;
  std::chrono::steady_clock::time_point deadline() const override;
  void MayCompress() override { context_.set_compression_level(GRPC_COMPRESS_LEVEL_LOW); }

 private:
  // Calls one of the functions below.
  template <void (GrpcCall::*Function)(bool)>
  struct To final : QueueTag {
    explicit To(GrpcCall* call) : call(call) {}
    void Done(bool ok) override;
    GrpcCall* const call;
  };

  void End();

  void Came(bool ok);
  void Ended(bool ok);
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void Finished(bool ok);
  void BeginOrEnd();
  void Release();

  Acceptor& acceptor_;
  std::shared_ptr<GrpcCall> while_grpc_has_it_;  // This call, until gRPC has no tag of it.
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  std::shared_ptr<Listener> listener_;
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
