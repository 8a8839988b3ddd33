// TLS on TCP. This server itself looks at the certificates: gRPC's watcher of files would use whatever it found. New
// connections use certificates that have changed, once these are good.

#ifndef SERVER_IDENTITY_TLS_H_
#define SERVER_IDENTITY_TLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/core/mutex.h"
#include "grpc/grpc_security.h"
#include "server/identity/lines.h"

namespace gluond::server {

// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  // The certificate of the server, and those between it and its authority.
  std::string key;
  std::string client_authority;  // Empty: clients need no certificate.

  bool any() const { return !certificate.empty() || !key.empty() || !client_authority.empty(); }
};

// The certificates and the key of a server, as its files had them when they were last good. Thread-safe.
class TlsCertificates {
 public:
  // FAILED_PRECONDITION: a flag is missing, or a file is not what it should be, or does not fit the others. NOT_FOUND: a file
  // cannot be read.
  static absl::StatusOr<std::unique_ptr<TlsCertificates>> Load(const TlsFiles& files);

  // Takes up files that have changed: all of them, or, where one is wrong, none; the error is told once. Returns whether any
  // has. For one thread at a time.
  absl::StatusOr<bool> Reload();

  // The moment at which the first of a flag's certificates is over, "--tls_cert" and "--tls_client_ca".
  std::vector<std::pair<std::string, absl::Time>> Ends() const;

  // Credentials that give each new connection the certificates as they are then. For one port of a server, which this
  // outlives. The caller owns them.
  grpc_server_credentials* NewCredentials();

 private:
  // Texts of the files.
  struct Texts {
    std::string certificate, key, client_authority;
  };
  // Credentials, and the version of the certificates that gRPC has for them.
  struct Port {
    TlsCertificates* certificates;
    int64_t version = 0;
  };

  explicit TlsCertificates(const TlsFiles& files);
  // Sets the ends of those of the server and of its clients' authorities.
  absl::Status Check(absl::Time* end, absl::Time* client_end) const;
  static grpc_ssl_certificate_config_reload_status Fetch(void* port, grpc_ssl_server_certificate_config** config);

  // Used in Reload alone.
  WatchedFile certificate_, key_, client_authority_;
  const bool asks_clients_;
  bool changed_ = false;  // Since the last Check.

  mutable Mutex mu_;
  absl::Time end_ ABSL_GUARDED_BY(mu_), client_end_ ABSL_GUARDED_BY(mu_);
  Texts good_ ABSL_GUARDED_BY(mu_);
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::unique_ptr<Port>> ports_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_TLS_H_
