// Channels: how a client reaches a server that wants encryption, or to know who calls.

#ifndef GLUOND_CLIENT_CPP_CHANNEL_H_
#define GLUOND_CLIENT_CPP_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gluond/options.h"
#include "grpcpp/grpcpp.h"

namespace gluond::client {

// How each channel of this client behaves; those of the Python client have the same.
grpc::ChannelArguments NewChannelArguments();

// INVALID_ARGUMENT: a file cannot be read, or a token would travel in clear to another machine.
absl::StatusOr<std::shared_ptr<grpc::Channel>> NewChannel(const std::string& address, const Access& access,
                                                          const grpc::ChannelArguments& arguments = NewChannelArguments());

// Whether gRPC itself says that no server can be reached, and no server does.
bool IsUnreachable(const grpc::Status& status);

// The way out for a person whom a server does not let in: a sentence in the words of Access and of the command `gluond`. The text
// is empty where the server can be reached and knows who calls.
std::string WayOut(const grpc::Status& status);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CHANNEL_H_
