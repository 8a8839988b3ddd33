// Router makes a Stream of each call that comes over gRPC, by the row that its method has in a service's table (raw_service.h).
// A method without a row is UNIMPLEMENTED: gRPC's own answer would count for nobody, and a client that asks faster than it is
// answered would take all memory. A caller who may not call a method hears so before any message is read. So does a caller
// whose tenant has used up its requests per second, or whose headers are too long. Every call is charged for from its headers
// on, whoever makes it, and whatever becomes of it.
//
// The router knows the calls under way. When a credential ends, or is taken from its owner, the owner's streams end, too: otherwise
// they would last as long as their client likes. A client that reads too slowly, or not at all, loses the call, so that the
// memory of what it is sent comes back.

#ifndef SERVER_RPC_ROUTER_H_
#define SERVER_RPC_ROUTER_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/core/mutex.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/identity/gatekeeper.h"
#include "server/net/grpc_1_51/arrivals.h"
#include "server/rpc/grpc_call.h"
#include "server/rpc/raw_service.h"

namespace gluond::server {

class Router {
 public:
  // The bytes of headers that a call may have, as HTTP/2 counts them. A call with up to kMostReadHeaders is refused by itself.
  // More end the connection: gRPC 1.51 does so where they come in one frame, and has no limit for them in several.
  static constexpr int64_t kMostHeaders = 16 << 10, kMostReadHeaders = 64 << 10;

  // All outlive the gRPC server. `gatekeeper`: null where everybody may call everything.
  Router(Runner& runner, const Gatekeeper* gatekeeper) : runner_(runner), gatekeeper_(gatekeeper) {
    unknown_.method.path = "unknown";  // The client has made its name up.
  }

  // `service` outlives the gRPC server.
  void Add(const RawService& service);
  // The server that `builder` makes has these services, and no others. The router outlives it.
  void RegisterAt(grpc::ServerBuilder& builder) { builder.RegisterAsyncGenericService(&service_); }
  // From here on calls are taken, by that server's queue, which is polled until after Stop.
  void Start(grpc::ServerCompletionQueue& queue);
  // No more calls are taken. To be called before the server is shut down.
  void Stop();
  // Waits until all calls are over. Afterwards nobody uses the queue. Requires that the server was shut down.
  void Wait();
  // Hears of each call that is read. Outlives the queue, as this does.
  Arrivals& arrivals() { return arrivals_; }

  // Ends the calls of those who could not make them any more. On one thread at a time.
  void EndRevoked();
  // Cancels the calls whose clients have not taken in time what was sent to them.
  void CancelLate();

  // The calls of methods that there are not.
  const CallCounts& unknown() const { return *unknown_.counts; }

 private:
  friend class GrpcCall;

  // Makes a stream of the call, and calls its Begin.
  void Accept(std::shared_ptr<GrpcCall> call);
  // Nobody ends the stream from here on. Waits while it is being revoked, or cancelled.
  void Over(Stream* stream);
  // Last of all, for each Await: gRPC has nothing of the call any more, or none came.
  void Gone();
  // Takes one more call.
  void Await();
  struct Arrival;
  // Finds the caller, and whether the call may begin.
  absl::Status Admit(GrpcCall& call, Arrival* arrival);
  // The reason why a call under way is to end; OK: it may go on.
  absl::Status MayGoOn(const Stream& stream) const;

  Runner& runner_;
  const Gatekeeper* const gatekeeper_;
  RawService::Row unknown_;                                              // The calls of methods that there are not have it.
  absl::flat_hash_map<absl::string_view, const RawService::Row*> rows_;  // By path.
  Arrivals arrivals_;
  grpc::AsyncGenericService service_;
  Mutex streams_mu_;
  CondVar revoked_;
  absl::flat_hash_set<Stream*> streams_ ABSL_GUARDED_BY(streams_mu_);  // The calls under way, but for those that are refused.
  Stream* revoking_ ABSL_GUARDED_BY(streams_mu_) = nullptr;            // Null: none.
  std::atomic<int64_t> calls_ = 0;                                     // All, and those that are awaited.
  Mutex mu_;
  CondVar gone_;
  grpc::ServerCompletionQueue* queue_ ABSL_GUARDED_BY(mu_) = nullptr;  // Null: no calls are taken.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_ROUTER_H_
