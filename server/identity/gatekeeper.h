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

namespace gluond::server {

class Gatekeeper {
 public:
  // `identities`: null where each certificate that TLS has found good may do all.
  explicit Gatekeeper(std::unique_ptr<Identities> identities) : identities_(std::move(identities)) {}

  // Sets `caller`, which stays null where nobody known calls. A method that is open wants no identity, and gets none.
  // UNAUTHENTICATED: nobody known calls. PERMISSION_DENIED: somebody who lacks the role.
  absl::Status Admit(absl::string_view method, const grpc::ServerContextBase& context, IdentityPtr* caller) const;
  // Whether `caller`, whom Admit has admitted to the method, would be by now.
  bool MayGoOn(absl::string_view method, const Identity& caller) const;

  // Takes up a file of identities that has changed; returns whether it has.
  absl::StatusOr<bool> Reload() { return identities_ == nullptr ? false : identities_->Reload(); }

 private:
  absl::StatusOr<IdentityPtr> Caller(const grpc::ServerContextBase& context) const;

  const std::unique_ptr<Identities> identities_;
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_GATEKEEPER_H_
