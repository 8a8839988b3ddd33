// Gatekeeper says who the caller of a method is, and refuses whoever may not call it: by the bearer token in the call's
// metadata, else by the certificate of its connection. On a Unix socket the kernel has said who may connect (listener.h):
// such a caller may do all, unless he names himself by a token. Thread-safe.

#ifndef SERVER_IDENTITY_GATEKEEPER_H_
#define SERVER_IDENTITY_GATEKEEPER_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"
#include "server/identity/access.h"
#include "server/identity/identities.h"
#include "server/identity/reach.h"
#include "server/identity/tenants.h"

namespace gluond::server {

class Gatekeeper {
 public:
  // `identities`: null where each certificate that TLS has found good may do all. `tenants` outlives this.
  Gatekeeper(std::unique_ptr<Identities> identities, const Tenants& tenants)
      : identities_(std::move(identities)), tenants_(tenants) {}

  struct Admitted {
    IdentityPtr identity;  // Null: a method that is open, by a caller without an identity.
    Reach reach;
  };
  // UNAUTHENTICATED: nobody known calls. PERMISSION_DENIED: somebody who lacks the role, or whose tenant is none of
  // `tenants`.
  absl::StatusOr<Admitted> Admit(absl::string_view method, const grpc::ServerContextBase& context) const;

  // Takes up a changed file of identities.
  absl::Status Reload() { return identities_ == nullptr ? absl::OkStatus() : identities_->Reload(); }

 private:
  absl::StatusOr<IdentityPtr> Caller(const grpc::ServerContextBase& context) const;

  absl::StatusOr<Reach> ReachOf(const Identity& identity) const;

  const std::unique_ptr<Identities> identities_;
  const Tenants& tenants_;
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_GATEKEEPER_H_
