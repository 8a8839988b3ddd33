// Jwt knows callers by JSON Web Tokens, which somebody else gives out and signs. A good token is signed by one of the keys
// of a file, with that key's own algorithm. Its issuer and audience are the ones that are wanted, and its time has come and
// is not over. The claims of the token say the caller's name and roles. Thread-safe; for gRPC's threads: nothing waits.
//
//   ASSIGN_OR_RETURN(auto jwt, Jwt::Load({.keys = "keys.pem", .issuer = "https://login.example.org", .audience = "gluond"}));
//   ASSIGN_OR_RETURN(IdentityPtr caller, jwt->Verify(token, connection, absl::Now()));
//
// A good token is remembered by its hash until it is over, so that a signature is checked once. A connection that brings
// new tokens faster than anybody has use for is refused before the next signature is checked.

#ifndef SERVER_IDENTITY_JWT_H_
#define SERVER_IDENTITY_JWT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/core/mutex.h"
#include "engine/store/json.h"
#include "server/identity/identities.h"
#include "server/identity/jwt_keys.h"
#include "server/identity/jwt_roles.h"
#include "server/identity/lines.h"

namespace gluond::server {

struct JwtOptions {
  std::string keys;  // A file of public keys; empty: no JSON Web Tokens.
  std::string issuer;
  std::string audience;
  absl::Duration leeway = absl::Seconds(60);  // For clocks that differ.
  std::string name_claim = "sub";
  JwtRolesOptions roles = {};
};

class Jwt {
 public:
  static constexpr size_t kMostBytes = 8 << 10;  // Bytes of a token.
  static constexpr size_t kMostRemembered = 4096;
  static constexpr int kMostNewInASecond = 32;      // New tokens of one connection.
  static constexpr size_t kMostConnections = 4096;  // Connections with new tokens in one second.

  // NOT_FOUND: no such file. INVALID_ARGUMENT: the file, or an option.
  static absl::StatusOr<std::unique_ptr<Jwt>> Load(JwtOptions options);

  // Takes up a file that has changed, and forgets what the old keys have signed; returns whether it has. One that is broken
  // changes nothing, and the error is told once. For one thread at a time.
  absl::StatusOr<bool> Reload();

  // Whether it looks like one: three parts with dots between. Other bearer tokens have none.
  static bool HasShape(absl::string_view token);

  // `connection` tells connections apart. UNAUTHENTICATED says which check failed, and nothing that the token has.
  // RESOURCE_EXHAUSTED: too many new tokens come by this connection.
  absl::StatusOr<IdentityPtr> Verify(absl::string_view token, const void* connection, absl::Time now);
  // Whether the token of an identity that Verify returned is good still. UNAUTHENTICATED: it is over, or its key is gone.
  absl::Status CheckStill(const Identity& identity, absl::Time now) const;

 private:
  // A token's claims, and the key that has signed them.
  struct Signed {
    Json claims;
    std::string pem;
  };

  Jwt(JwtOptions options, JwtRoles roles);
  absl::Status CountNew(const void* connection, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static absl::StatusOr<Signed> CheckSignature(absl::string_view token, const std::vector<JwtKey>& keys);
  absl::StatusOr<IdentityPtr> ReadClaims(const Signed& token, absl::Time now) const;
  void Remember(const std::string& hash, const IdentityPtr& identity, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const JwtOptions options_;
  const JwtRoles roles_;
  WatchedFile file_;  // Used in Reload alone.
  mutable Mutex mu_;
  std::shared_ptr<const std::vector<JwtKey>> keys_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, IdentityPtr> good_ ABSL_GUARDED_BY(mu_);  // By the token's hash.
  absl::flat_hash_map<const void*, int> new_ ABSL_GUARDED_BY(mu_);           // By connection: new tokens in this second.
  int64_t second_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_JWT_H_
