// Identities are the callers that a server knows: a file with a line for each credential,
//
//   # name  roles          credential
//   alice   train,publish  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//   shop    infer          certificate:shop.example.org
//
// where sha256: is the hash of a bearer token (`gluond token` makes both), and certificate: the common name or a DNS name, URI
// or e-mail address of a client's certificate. Fields behind that are grants (grants.h). Several lines may have one name.
// `acme/alice` is alice of the tenant acme (tenants.h). A name may be any text (names.h), in which blanks and '%' are %20 and
// %25. Thread-safe.

#ifndef SERVER_IDENTITY_IDENTITIES_H_
#define SERVER_IDENTITY_IDENTITIES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/core/mutex.h"
#include "server/identity/access.h"
#include "server/identity/grants.h"
#include "server/identity/lines.h"

namespace gluond::server {

struct Identity {
  std::string name;  // Inside (names.h): "alice", or with the tenant before it, "acme/alice".
  Roles roles;
  std::string credential = {};  // As in the file; empty: it is in none.
  std::string signer = {};      // The key that signed the caller's JSON Web Token (jwt.h); empty: there is no such token.
  absl::Time end = absl::InfiniteFuture();  // The end of the token.
  bool is_anybodys = false;                 // Several who have nothing to do with each other may be called so.
  Grants grants = {};                       // Others' things that it may use.
};
// Null: nobody asks who callers are.
using IdentityPtr = std::shared_ptr<const Identity>;

class Identities {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: a line, which the message quotes by number and never by its credential.
  static absl::StatusOr<std::unique_ptr<Identities>> Load(std::string path);

  // Takes up a file that has changed; returns whether it has. One that is broken, or has lost all its lines, changes nothing,
  // and the error is told once. For one thread at a time.
  absl::StatusOr<bool> Reload();

  // Credentials that are new, gone, or good for others or other roles: what Reload has changed since the last call.
  struct Change {
    std::string name;        // The name of the caller, and his roles: "alice train,publish".
    absl::string_view what;  // "granted" or "revoked". Where both come, in the other order, it is another one by now.
  };
  std::vector<Change> TakeChanges() { return std::exchange(changes_, {}); }

  // The identity that has its credential by now, if any.
  IdentityPtr Now(const Identity& identity) const { return Find(identity.credential); }
  // Null: nobody has the token.
  IdentityPtr WithToken(absl::string_view token) const;
  IdentityPtr WithCertificate(absl::string_view name) const;

 private:
  using ByCredential = absl::flat_hash_map<std::string, IdentityPtr>;

  explicit Identities(std::string path) : file_("--identities", std::move(path)) {}
  static absl::StatusOr<ByCredential> Parse(absl::string_view text);
  // Adds the identities of `some` whose credentials are not theirs, or not with these roles, in `others`.
  void AddChanges(const ByCredential& some, const ByCredential& others, absl::string_view what);
  IdentityPtr Find(const std::string& credential) const;

  WatchedFile file_;             // Used in Reload alone.
  std::vector<Change> changes_;  // Made by Reload, for TakeChanges.
  mutable Mutex mu_;
  ByCredential by_credential_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_IDENTITIES_H_
