// JSON Web Tokens that a key of one's own signs: for tests, and where nobody else says who people are.
//
//   GLUOND_ASSIGN_OR_RETURN(const JwtSigner signer, JwtSigner::Read("signer.key"));
//   GLUOND_ASSIGN_OR_RETURN(const std::string token, signer.Sign({"https://login.example.org", "gluond", "alice", {"train"},
//                                                                 absl::Now(), absl::Now() + absl::Hours(1)}));

#ifndef GLUOND_CLIENT_CLI_JWT_H_
#define GLUOND_CLIENT_CLI_JWT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gluond::cli {

// The claims by which a server knows a caller, unless its flags name others.
struct JwtClaims {
  std::string issuer;              // `iss`
  std::string audience;            // `aud`
  std::string name;                // `sub`
  std::vector<std::string> roles;  // `roles`. Requires: letters alone.
  absl::Time begin;                // `iat`
  absl::Time end;                  // `exp`
};

class JwtSigner {
 public:
  // A private key in PEM, which is not encrypted.
  // NOT_FOUND: no such file. INVALID_ARGUMENT: no key, or one of a kind that servers take no tokens of.
  static absl::StatusOr<JwtSigner> Read(const std::string& path);

  // INVALID_ARGUMENT: a claim is no text.
  absl::StatusOr<std::string> Sign(const JwtClaims& claims) const;
  // In PEM, for the server's file --jwt_keys.
  const std::string& public_key() const { return public_key_; }

 private:
  JwtSigner() = default;
  bool is_rsa_ = false;  // RS256; else ES256.
  std::string private_key_;
  std::string public_key_;
};

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_JWT_H_
