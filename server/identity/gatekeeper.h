// Gatekeeper says who the caller of a method is, and refuses whoever may not call it. The bearer token in the call's
// metadata names the caller. A call without a token has the name of its connection: that of the certificate, or `local` on
// a Unix socket, where the kernel has said who may connect (listener.h). A connection names callers only where nobody but
// its other end can have made the call. Where tokens or a file name callers, nobody on a socket is `local` unless
// --unix_identity says so. A certificate with the role `proxy` lends nobody anything. Thread-safe.

#ifndef SERVER_IDENTITY_GATEKEEPER_H_
#define SERVER_IDENTITY_GATEKEEPER_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/identity/access.h"
#include "server/identity/identities.h"
#include "server/identity/jwt.h"
#include "server/identity/reach.h"
#include "server/identity/tenants.h"

namespace gluond::server {

// Whom a Unix socket's connection makes of a call without a token: nobody, or `local`, who may do all.
enum class UnixIdentity { kNone, kLocal };
// Whether an open method asks for names in the name of nobody. Where it does not, the caller is looked for there, too.
enum class OpenNames { kForAll, kForCallers };

class Gatekeeper {
 public:
  // `identities`: null where each certificate that TLS has found good may do all. `jwt`: null where no JSON Web Token is one.
  // `tenants` outlives this.
  Gatekeeper(std::unique_ptr<Identities> identities, std::unique_ptr<Jwt> jwt, const Tenants& tenants, UnixIdentity unix_identity,
             OpenNames open_names)
      : identities_(std::move(identities)),
        jwt_(std::move(jwt)),
        tenants_(tenants),
        unix_identity_(unix_identity),
        open_names_(open_names) {}

  struct Admitted {
    IdentityPtr identity;  // Null: nobody known calls.
    Reach reach;
  };
  // Sets `caller`. `wanted`: nothing for a method that there is not. A method that is open wants no identity, and gets none, or,
  // with OpenNames::kForCallers, one that is good.
  // UNAUTHENTICATED: nobody known calls. PERMISSION_DENIED: somebody who lacks the role, or whose tenant is none of
  // `tenants`. RESOURCE_EXHAUSTED: too many JSON Web Tokens that are new come by this connection.
  absl::Status Admit(std::optional<Access> wanted, grpc::ServerContextBase& context, Admitted* caller) const;
  // Whether `caller`, whom Admit has admitted to a method with `reach`, would be by now. UNAUTHENTICATED tells why not;
  // PERMISSION_DENIED: his tenant is none of `tenants` any more.
  absl::Status MayGoOn(Access wanted, const Identity& caller, const Reach& reach) const;

  // Whether callers have credentials that end by themselves: MayGoOn may change its mind without a Reload.
  bool credentials_end() const { return jwt_ != nullptr; }

  // Take up a changed file of identities, and of keys. Without the file there is no change.
  absl::StatusOr<bool> ReloadIdentities() { return identities_ == nullptr ? false : identities_->Reload(); }
  absl::StatusOr<bool> ReloadKeys() { return jwt_ == nullptr ? false : jwt_->Reload(); }
  // The changes that ReloadIdentities has made.
  std::vector<Identities::Change> TakeChanges() {
    return identities_ == nullptr ? std::vector<Identities::Change>() : identities_->TakeChanges();
  }

 private:
  absl::StatusOr<IdentityPtr> OfCertificate(const grpc::AuthContext& connection) const;
  absl::StatusOr<IdentityPtr> OfConnection(grpc::ServerContextBase& context) const;
  absl::StatusOr<IdentityPtr> Caller(grpc::ServerContextBase& context) const;
  absl::Status Find(grpc::ServerContextBase& context, Admitted* caller) const;
  absl::StatusOr<Reach> ReachOf(const Identity& identity) const;

  const std::unique_ptr<Identities> identities_;
  const std::unique_ptr<Jwt> jwt_;
  const Tenants& tenants_;
  const UnixIdentity unix_identity_;
  const OpenNames open_names_;
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_GATEKEEPER_H_
