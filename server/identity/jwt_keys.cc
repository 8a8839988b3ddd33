#include "server/identity/jwt_keys.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

constexpr size_t kMostKeys = 16;
constexpr int kLeastRsaBits = 2048;
constexpr char kBegin[] = "-----BEGIN PUBLIC KEY-----", kEnd[] = "-----END PUBLIC KEY-----";

// Empty: no algorithm of ours is for this key.
std::string AlgorithmOf(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> file(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                           &BIO_free_all);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      file == nullptr ? nullptr : PEM_read_bio_PUBKEY(file.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  ERR_clear_error();
  if (key == nullptr) return "";
  if (EVP_PKEY_base_id(key.get()) == EVP_PKEY_RSA) return EVP_PKEY_bits(key.get()) >= kLeastRsaBits ? "RS256" : "";
  if (EVP_PKEY_base_id(key.get()) != EVP_PKEY_EC) return "";
  char curve[32] = {};
  size_t length = 0;
  const int got = EVP_PKEY_get_group_name(key.get(), curve, sizeof(curve), &length);
  ERR_clear_error();
  return got == 1 && absl::string_view(curve) == "prime256v1" ? "ES256" : "";
}

}  // namespace

absl::StatusOr<std::vector<JwtKey>> ParseJwtKeys(absl::string_view text) {
  std::vector<JwtKey> keys;
  JwtKey next;
  int64_t number = 0;
  const auto error = [&number](const auto&... why) { return Invalid("--jwt_keys, line ", number, ": ", why...); };
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (!next.pem.empty()) {
      absl::StrAppend(&next.pem, line, "\n");
      if (line != kEnd) continue;
      next.algorithm = AlgorithmOf(next.pem);
      if (next.algorithm.empty()) {
        return error("the key that ends here is none for tokens; want RSA of ", kLeastRsaBits,
                     " bits or more, or the curve P-256 (prime256v1)");
      }
      if (keys.size() == kMostKeys) return error("there are more than ", kMostKeys, " keys");
      keys.push_back(std::move(next));
      next = JwtKey();
    } else if (line == kBegin) {
      next.pem = absl::StrCat(line, "\n");
    } else if (absl::ConsumePrefix(&line, "kid:")) {
      next.kid = std::string(absl::StripAsciiWhitespace(line));
      const bool is_known = std::any_of(keys.begin(), keys.end(), [&](const JwtKey& key) { return key.kid == next.kid; });
      if (next.kid.empty() || is_known) return error("want a name that no other key has after `kid:`");
    } else if (!line.empty() && line[0] != '#') {
      return error(absl::StrContains(line, "PRIVATE") ? "it begins a private key, which belongs to the signer alone"
                                                      : "want `kid: NAME`, or a public key in PEM (BEGIN PUBLIC KEY)");
    }
  }
  if (!next.pem.empty()) return error("a key begins and does not end");
  if (keys.empty()) return Invalid("--jwt_keys: the file has no public key");
  return keys;
}

}  // namespace gluond::server
