// Transport: gRPC's server with all that stands around it. That is the listener, the threads that accept and poll, the router
// to which the calls come, and the watch over connections that keep too much unread.

#ifndef SERVER_TRANSPORT_H_
#define SERVER_TRANSPORT_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/hosted/sweeper.h"
#include "server/identity_files.h"
#include "server/net/grpc_1_51/accept_threads.h"
#include "server/net/grpc_1_51/poll_threads.h"
#include "server/net/grpc_1_51/unread.h"
#include "server/net/listener.h"
#include "server/options.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/router.h"

namespace gluond::server {

class Transport {
 public:
  // Takes calls of the services from here on. `runner`, `identities` and `services` outlive this. UNAVAILABLE: the address is
  // taken. INVALID_ARGUMENT: it is none.
  static absl::StatusOr<std::unique_ptr<Transport>> Listen(const ServerOptions& options, Runner& runner, IdentityFiles& identities,
                                                           const std::vector<std::unique_ptr<RawService>>& services);

  Router& router() { return router_; }
  // Null: the server is in process only.
  Listener* listener() const { return listener_.get(); }
  int port() const { return listener_ == nullptr ? 0 : listener_->port(); }  // 0 for a Unix socket.
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Takes no new connections.
  void StopListening();
  // Takes no new calls, gives those under way so long, and returns when all are over.
  void Shutdown(std::chrono::nanoseconds time);

 private:
  Transport(Runner& runner, const Gatekeeper* gatekeeper) : runner_(runner), router_(runner, gatekeeper) {}
  absl::Status Open(const ServerOptions& options, TlsCertificates* tls, const std::vector<std::unique_ptr<RawService>>& services);
  void EndConnection(const std::string& name, Ending ending);
  void EndThoseWhoKeepTooMuchUnread();

  // Members stand in the order of use: the last is destroyed first.
  Runner& runner_;
  Router router_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<PollThreads> poll_threads_;
  std::unique_ptr<AcceptThreads> accept_threads_;  // Null in process, as the listener.
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Unread> unread_;
  std::unique_ptr<Sweeper> unread_sweeper_;
};

}  // namespace gluond::server

#endif  // SERVER_TRANSPORT_H_
