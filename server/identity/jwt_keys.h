// The public keys that sign JSON Web Tokens: a file with keys in PEM, each after a line with its name, if it has one:
//
//   kid: 2026-11
//   -----BEGIN PUBLIC KEY-----
//   ...
//
// A key says by which algorithm it signs, and no token does: RSA of 2048 bits or more RS256, a curve P-256 ES256.

#ifndef SERVER_IDENTITY_JWT_KEYS_H_
#define SERVER_IDENTITY_JWT_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

struct JwtKey {
  std::string kid;        // Empty: a token of any name may be signed by it.
  std::string algorithm;  // "RS256".
  std::string pem;
};

// INVALID_ARGUMENT tells the line: no public key, a private one, or one of another kind; a name twice; or more than 16.
absl::StatusOr<std::vector<JwtKey>> ParseJwtKeys(absl::string_view text);

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_JWT_KEYS_H_
