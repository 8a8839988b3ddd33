#include "server/identity/gatekeeper.h"

#include <iterator>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "grpc/grpc_security.h"
#include "server/identity/names.h"

namespace gluond::server {
namespace {

absl::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

absl::Status Unauthenticated(absl::string_view why) { return WithInfo(absl::UnauthenticatedError(why), reason::kNoIdentity); }

// The names that TLS has proved: the common name, and those of the certificate's extension.
std::vector<std::string> CertifiedNames(const grpc::AuthContext& context) {
  std::vector<std::string> names;
  for (const char* property :
       {GRPC_X509_CN_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME, GRPC_PEER_URI_PROPERTY_NAME, GRPC_PEER_EMAIL_PROPERTY_NAME}) {
    for (const grpc::string_ref& value : context.FindPropertyValues(property)) {
      if (!value.empty()) names.emplace_back(value.data(), value.size());  // A certificate without the name has an empty one.
    }
  }
  return names;
}

// Tells connections apart, as Peers does: those of a Unix socket have one name. Null for calls within the process.
const void* ConnectionOf(grpc::ServerContextBase& context) {
  grpc_auth_context* const connection = grpc_call_auth_context(context.c_call());
  if (connection != nullptr) grpc_auth_context_release(connection);  // The connection's own reference stays.
  return connection;
}

}  // namespace

absl::StatusOr<IdentityPtr> Gatekeeper::Caller(grpc::ServerContextBase& context) const {
  const auto [first, last] = context.client_metadata().equal_range("authorization");
  if (first == last) return OfConnection(context);
  if (std::next(first) != last) return Unauthenticated("the metadata has several `authorization`; send one");
  absl::string_view token = View(first->second);
  if (!absl::StartsWithIgnoreCase(token, "Bearer ")) {
    return Unauthenticated("the metadata `authorization` is no bearer token; want `Bearer` and the token");
  }
  token = absl::StripAsciiWhitespace(token.substr(7));
  if (jwt_ != nullptr && Jwt::HasShape(token)) return jwt_->Verify(token, ConnectionOf(context), absl::Now());
  IdentityPtr identity = identities_ == nullptr ? nullptr : identities_->WithToken(token);
  if (identity != nullptr) return identity;
  return Unauthenticated("nobody has this bearer token; it may have been revoked, ask the server's operator for one");
}

absl::StatusOr<IdentityPtr> Gatekeeper::OfConnection(grpc::ServerContextBase& context) const {
  if (const auto connection = context.auth_context(); connection != nullptr && connection->IsPeerAuthenticated()) {
    ASSIGN_OR_RETURN(IdentityPtr identity, OfCertificate(*connection));
    if (identity != nullptr) return identity;
  }
  const std::string peer = context.peer();
  const bool is_local = absl::StartsWith(peer, "unix:") && unix_identity_ == UnixIdentity::kLocal;
  // The process may do all to itself. gRPC has another name for such a peer in each release.
  const bool is_own = ConnectionOf(context) == nullptr && !absl::StartsWith(peer, "ipv") && !absl::StartsWith(peer, "unix");
  if (!is_local && !is_own) {
    return Unauthenticated(
        "the server wants to know who calls: send the metadata `authorization: Bearer TOKEN`, or connect with a certificate that "
        "it knows");
  }
  static const auto& local =
      *new IdentityPtr(std::make_shared<const Identity>(Identity{.name = "local", .roles = Roles::All(), .is_anybodys = true}));
  return local;
}

// Null: the certificate is good, and nobody's whom the server knows.
absl::StatusOr<IdentityPtr> Gatekeeper::OfCertificate(const grpc::AuthContext& connection) const {
  const std::vector<std::string> names = CertifiedNames(connection);
  if (names.empty()) {
    return Unauthenticated(
        "the certificate of this connection has no common name and no DNS name, URI or e-mail address, which would say who calls; "
        "connect with one that has");
  }
  if (identities_ == nullptr) {
    if (jwt_ != nullptr) return nullptr;
    const absl::StatusOr<std::string> name = CallersName(names[0]);
    if (name.ok()) return std::make_shared<const Identity>(Identity{.name = *name, .roles = Roles::All()});
    return Unauthenticated(absl::StrCat("the name in this connection's certificate says nobody: ", name.status().message()));
  }
  IdentityPtr first;
  for (const std::string& name : names) {
    IdentityPtr identity = identities_->WithCertificate(name);
    if (identity != nullptr && identity->roles.is_proxy()) {
      return Unauthenticated(
          "this connection is a proxy's, which lends its rights to nobody: send the metadata `authorization: Bearer TOKEN` of "
          "whoever calls");
    }
    if (first == nullptr) first = std::move(identity);
  }
  return first;
}

absl::StatusOr<Reach> Gatekeeper::ReachOf(const Identity& identity) const {
  if (!TenantOf(identity.name).empty()) {
    if (const TenantPtr tenant = tenants_.OwnerOf(identity.name); tenant != nullptr) return Reach::Of(tenant);
    return NoPermission("the tenant of '", identity.name,
                        "' has no line in the server's file --tenants; ask the server's operator");
  }
  // The numbers of its clients could be those of the tenant's callers (UnaryCall::Scope).
  if (tenants_.Find(identity.name) != nullptr) {
    return NoPermission("'", identity.name, "' is the name of a tenant, and no caller's");
  }
  return tenants_.any() && !identity.roles.Has(Role::kAdmin) ? Reach::OfNoTenant() : Reach();
}

absl::Status Gatekeeper::Find(grpc::ServerContextBase& context, Admitted* caller) const {
  ASSIGN_OR_RETURN(caller->identity, Caller(context));
  ASSIGN_OR_RETURN(caller->reach, ReachOf(*caller->identity));
  return absl::OkStatus();
}

absl::Status Gatekeeper::Admit(std::optional<Access> wanted, grpc::ServerContextBase& context, Admitted* caller) const {
  if (wanted == Access::kOpen) {
    Admitted found;
    if (open_names_ == OpenNames::kForCallers && Find(context, &found).ok()) *caller = std::move(found);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Find(context, caller));
  // A method that the server lacks is the router's to refuse, for those whom it knows.
  if (!wanted.has_value()) return absl::OkStatus();
  // An admin of a tenant may do all to things of the tenant, and nothing to the server.
  const bool is_servers = wanted == Access::kAdmin && caller->reach.tenant() != nullptr;
  if (!is_servers && Allows(*wanted, caller->identity->roles)) return absl::OkStatus();
  return WithInfo(absl::PermissionDeniedError(absl::StrCat(
                      "'", caller->identity->name, "' has the roles ", caller->identity->roles.ToString(), ", and this wants ",
                      NameOf(*wanted), is_servers ? " of no tenant" : "", "; ask the server's operator for it")),
                  reason::kNoPermission, {{"role", std::string(NameOf(*wanted))}});
}

absl::Status Gatekeeper::MayGoOn(Access wanted, const Identity& caller, const Reach& reach) const {
  if (!caller.signer.empty()) RETURN_IF_ERROR(jwt_->CheckStill(caller, absl::Now()));
  Roles roles = caller.roles;
  bool is_known = true;
  if (identities_ != nullptr && !caller.credential.empty()) {
    const IdentityPtr now = identities_->Now(caller);
    is_known = now != nullptr && now->name == caller.name;
    if (is_known) roles = now->roles;
  }
  if (is_known && Allows(wanted, roles)) {
    ASSIGN_OR_RETURN(const Reach by_now, ReachOf({.name = caller.name, .roles = roles}));
    if (by_now.Covers(reach)) return absl::OkStatus();
  }
  return Unauthenticated(
      "the credential with which this call was made, or a role of it, has been revoked since; ask the server's operator for "
      "another one");
}

}  // namespace gluond::server
