// A client over a channel that the caller made, for tests and unusual transports.

#ifndef GLUOND_CLIENT_CPP_CONNECT_H_
#define GLUOND_CLIENT_CPP_CONNECT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "gluond/client.h"
#include "grpcpp/grpcpp.h"

namespace gluond::client {

// As Client::Connect.
absl::StatusOr<Client> Connect(std::shared_ptr<grpc::Channel> channel, Options options = {});

const std::shared_ptr<grpc::Channel>& ChannelOf(const Client& client);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CONNECT_H_
