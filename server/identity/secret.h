// Secrets that the server gives to clients: names of sessions, keys of what they save.

#ifndef SERVER_IDENTITY_SECRET_H_
#define SERVER_IDENTITY_SECRET_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// 128 random bits in hexadecimal.
absl::StatusOr<std::string> NewSecret();

// The SHA-256 of a text, in hexadecimal: what a file may have of a secret.
std::string HashOf(absl::string_view text);

// Whether they are equal. The time that it takes tells nothing of `secret` but its length.
bool IsSecret(absl::string_view secret, absl::string_view told);

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_SECRET_H_
