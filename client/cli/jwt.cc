#include "client/cli/jwt.h"

#include <jwt.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gluond::cli {
namespace {

constexpr int kLeastRsaBits = 2048;

using File = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// A command asks for no passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

bool IsRsa(EVP_PKEY* key) { return EVP_PKEY_base_id(key) == EVP_PKEY_RSA; }

// Whether a server takes the key's tokens.
bool Signs(EVP_PKEY* key) {
  if (IsRsa(key)) return EVP_PKEY_bits(key) >= kLeastRsaBits;
  char curve[32] = {};
  return EVP_PKEY_base_id(key) == EVP_PKEY_EC && EVP_PKEY_get_group_name(key, curve, sizeof(curve), nullptr) == 1 &&
         absl::string_view(curve) == "prime256v1";
}

// Empty: `write` failed.
std::string Text(absl::FunctionRef<int(BIO*)> write) {
  const File file(BIO_new(BIO_s_mem()), &BIO_free_all);
  char* text = nullptr;
  if (file == nullptr || write(file.get()) != 1) return "";
  const long size = BIO_get_mem_data(file.get(), &text);
  return std::string(text, size);
}

}  // namespace

absl::StatusOr<JwtSigner> JwtSigner::Read(const std::string& path) {
  const File file(BIO_new_file(path.c_str(), "r"), &BIO_free_all);
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("--jwt_key=", path, " cannot be read"));
  const Key key(PEM_read_bio_PrivateKey(file.get(), nullptr, &NoPassphrase, nullptr), &EVP_PKEY_free);
  if (key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("--jwt_key=", path,
                                                   " has no private key in PEM, or an encrypted one; "
                                                   "want one without a passphrase"));
  }
  if (!Signs(key.get())) {
    return absl::InvalidArgumentError(absl::StrCat("--jwt_key=", path, " has a key that is none for tokens; want RSA of ",
                                                   kLeastRsaBits, " bits or more, or the curve P-256 (prime256v1)"));
  }
  JwtSigner signer;
  signer.is_rsa_ = IsRsa(key.get());
  signer.private_key_ =
      Text([&key](BIO* out) { return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  signer.public_key_ = Text([&key](BIO* out) { return PEM_write_bio_PUBKEY(out, key.get()); });
  if (signer.private_key_.empty() || signer.public_key_.empty()) {
    return absl::InternalError(absl::StrCat("--jwt_key=", path, ": OpenSSL writes it not again"));
  }
  return signer;
}

absl::StatusOr<std::string> JwtSigner::Sign(const JwtClaims& claims) const {
  jwt_t* made = nullptr;
  if (jwt_new(&made) != 0) return absl::InternalError("libjwt makes no token");
  const std::unique_ptr<jwt_t, decltype(&jwt_free)> jwt(made, &jwt_free);
  for (const auto& [claim, text] :
       {std::pair("iss", claims.issuer), std::pair("aud", claims.audience), std::pair("sub", claims.name)}) {
    if (jwt_add_grant(made, claim, text.c_str()) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the claim '", claim, "' of the token cannot be written; want UTF-8"));
    }
  }
  const std::string roles = absl::StrCat(R"({"roles": [")", absl::StrJoin(claims.roles, R"(", ")"), R"("]})");
  const bool all =
      jwt_add_grants_json(made, roles.c_str()) == 0 && jwt_add_grant_int(made, "iat", absl::ToUnixSeconds(claims.begin)) == 0 &&
      jwt_add_grant_int(made, "exp", absl::ToUnixSeconds(claims.end)) == 0 &&
      jwt_set_alg(made, is_rsa_ ? JWT_ALG_RS256 : JWT_ALG_ES256, reinterpret_cast<const unsigned char*>(private_key_.data()),
                  static_cast<int>(private_key_.size())) == 0;
  const std::unique_ptr<char, decltype(&std::free)> token(all ? jwt_encode_str(made) : nullptr, &std::free);
  if (token == nullptr) return absl::InternalError("libjwt signs no token with this key");
  return std::string(token.get());
}

}  // namespace gluond::cli
