#include "server/identity/secret.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <unistd.h>

#include "absl/strings/escaping.h"

namespace gluond::server {

absl::StatusOr<std::string> NewSecret() {
  std::string bytes(16, '\0');
  if (getentropy(bytes.data(), bytes.size()) != 0) return absl::InternalError("the system has no random numbers");
  return absl::BytesToHexString(bytes);
}

std::string HashOf(absl::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

bool IsSecret(absl::string_view secret, absl::string_view told) {
  return secret.size() == told.size() && CRYPTO_memcmp(secret.data(), told.data(), secret.size()) == 0;
}

}  // namespace gluond::server
