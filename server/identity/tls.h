// TLS on TCP, by gRPC's own watcher of files: certificates that change are taken up within seconds, by new connections.

#ifndef SERVER_IDENTITY_TLS_H_
#define SERVER_IDENTITY_TLS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpc/grpc_security.h"

namespace gluond::server {

// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  // The server's, and those between it and its authority.
  std::string key;
  std::string client_authority;  // Empty: clients need no certificate.

  bool any() const { return !certificate.empty() || !key.empty() || !client_authority.empty(); }
};

// FAILED_PRECONDITION: a flag is missing, or a file cannot be read, is not what it should be, or does not fit the others.
absl::Status CheckTlsFiles(const TlsFiles& files);

// The caller owns them. Requires: CheckTlsFiles.
grpc_server_credentials* TlsCredentials(const TlsFiles& files);

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_TLS_H_
