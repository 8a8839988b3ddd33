// Access: how a client reaches a server that wants encryption, or to know who calls.

#ifndef GLUOND_CLIENT_CPP_ACCESS_H_
#define GLUOND_CLIENT_CPP_ACCESS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace gluond::client {

// Paths of files; those of certificates and keys in PEM.
struct Access {
  std::string tls_ca;      // The authorities whose servers are trusted. Empty: no encryption.
  std::string tls_cert;    // The client's own certificate, where the server asks for one, ...
  std::string tls_key;     // ... and its key.
  std::string token_file;  // A bearer token, which each call carries.

  // GLUOND_TLS_CA, GLUOND_TLS_CERT, GLUOND_TLS_KEY and GLUOND_TOKEN_FILE, which the Python client reads as well.
  static Access FromEnvironment();
};

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

#endif  // GLUOND_CLIENT_CPP_ACCESS_H_
