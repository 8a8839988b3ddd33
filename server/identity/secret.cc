#include "server/identity/secret.h"

#include <openssl/sha.h>
#include <unistd.h>

#include <cstddef>

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
  if (secret.size() != told.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < secret.size(); ++i) difference |= static_cast<unsigned char>(secret[i] ^ told[i]);
  return difference == 0;
}

}  // namespace gluond::server
