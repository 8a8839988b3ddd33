// UnknownMethods answers the calls of methods that no service has. gRPC's own answer does not count a client's calls:
// one that asks faster than it is answered would take all memory.

#ifndef SERVER_RPC_UNKNOWN_METHODS_H_
#define SERVER_RPC_UNKNOWN_METHODS_H_

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/net/peers.h"

namespace gluond::server {

class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  // `peers` outlives the gRPC server.
  explicit UnknownMethods(Peers& peers) : peers_(peers) {}

  // Its answer is UNIMPLEMENTED.
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

 private:
  Peers& peers_;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_UNKNOWN_METHODS_H_
