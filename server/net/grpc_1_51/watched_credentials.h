// The credentials of a server that counts the calls that it reads. gRPC tells the thread that reads of nothing but a call's
// metadata, to a "processor" of the credentials, and of those without encryption only its C interface takes one.
//
// Needless with gRPC 1.60, which caps the calls that nobody has taken (grpc/grpc, pull request 34782).

#ifndef SERVER_NET_GRPC_1_51_WATCHED_CREDENTIALS_H_
#define SERVER_NET_GRPC_1_51_WATCHED_CREDENTIALS_H_

#include <memory>

#include "grpc/grpc_security.h"
#include "grpcpp/grpcpp.h"
#include "server/net/grpc_1_51/arrivals.h"

namespace gluond::server {

// Owns `credentials`. `arrivals` hears of each call, and outlives the server.
std::shared_ptr<grpc::ServerCredentials> WatchedCredentials(grpc_server_credentials* credentials, Arrivals& arrivals);

}  // namespace gluond::server

#endif  // SERVER_NET_GRPC_1_51_WATCHED_CREDENTIALS_H_
