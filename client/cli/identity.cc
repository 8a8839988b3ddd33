// gluond token: makes a bearer token, and the line by which a server knows it, or the key.
// gluond certificates: makes what a test of TLS takes.

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/jwt.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr size_t kLongestCaller = 256;
// A certificate's times have years of four digits.
constexpr int64_t kMostDays = 365'000;

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

// Writes a file, which its owner alone may read where it `is_secret`.
absl::Status Write(const std::string& path, bool is_secret, absl::FunctionRef<int(FILE*)> write) {
  const mode_t others = umask(is_secret ? 0077 : 0022);
  FILE* const file = std::fopen(path.c_str(), "we");
  umask(others);
  const bool written = file != nullptr && write(file) == 1;
  if ((file != nullptr && std::fclose(file) != 0) || !written) {
    return absl::PermissionDeniedError(absl::StrCat(path, " cannot be written; is the folder there, and yours?"));
  }
  return absl::OkStatus();
}

// The certificate and the key that sign another certificate.
struct Signer {
  X509* certificate;
  EVP_PKEY* key;
};

bool Extend(X509* certificate, const Signer& signer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, signer.certificate, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), &X509_EXTENSION_free);
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// A certificate, signed by `authority`, or by itself where that is null. Null: OpenSSL failed.
// `names`: of the extension, like "DNS:localhost,IP:127.0.0.1"; empty for an authority.
Certificate Sign(EVP_PKEY* key, const std::string& common_name, const std::string& names, int64_t days, const Signer* authority) {
  Certificate certificate(X509_new(), &X509_free);
  X509* const x = certificate.get();
  const Signer signer = authority == nullptr ? Signer{x, key} : *authority;
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial));
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial >> 1);
  X509_set_version(x, X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(x), -60);
  X509_time_adj_ex(X509_getm_notAfter(x), static_cast<int>(days), 0, nullptr);
  X509_set_pubkey(x, key);
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  const bool named = X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, text, -1, -1, 0) == 1 &&
                     X509_set_issuer_name(x, X509_get_subject_name(signer.certificate)) == 1;
  const bool extended = names.empty() ? Extend(x, signer, NID_basic_constraints, "critical,CA:TRUE") &&
                                            Extend(x, signer, NID_key_usage, "critical,keyCertSign,cRLSign")
                                      : Extend(x, signer, NID_basic_constraints, "critical,CA:FALSE") &&
                                            Extend(x, signer, NID_ext_key_usage, "serverAuth,clientAuth") &&
                                            Extend(x, signer, NID_subject_alt_name, names);
  if (!named || !extended || X509_sign(x, signer.key, EVP_sha256()) == 0) return Certificate(nullptr, &X509_free);
  return certificate;
}

// Makes `folder/name.key` and `folder/name.pem`.
absl::StatusOr<std::pair<Key, Certificate>> Make(const std::string& folder, const std::string& name, const std::string& common_name,
                                                 const std::string& names, int64_t days, const Signer* authority) {
  Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  if (key == nullptr) return absl::InternalError("OpenSSL makes no key");
  Certificate certificate = Sign(key.get(), common_name, names, days, authority);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("OpenSSL makes no certificate for ", common_name, " with the names ", names));
  }
  const std::string path = absl::StrCat(folder, "/", name);
  GLUOND_RETURN_IF_ERROR(Write(path + ".key", true, [&](FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }));
  GLUOND_RETURN_IF_ERROR(Write(path + ".pem", false, [&](FILE* file) { return PEM_write_X509(file, certificate.get()); }));
  return std::pair(std::move(key), std::move(certificate));
}

// "localhost,10.0.0.7" as "DNS:localhost,IP:10.0.0.7".
std::string NamesOf(const std::string& hosts) {
  std::string names;
  for (const absl::string_view host : absl::StrSplit(hosts, ',', absl::SkipEmpty())) {
    const bool is_number = host.find_first_not_of("0123456789.") == absl::string_view::npos || absl::StrContains(host, ":");
    absl::StrAppend(&names, names.empty() ? "" : ",", is_number ? "IP:" : "DNS:", host);
  }
  return names;
}

// The token goes to its owner's file.
absl::Status WriteToken(const std::string& file, const std::string& token) {
  GLUOND_RETURN_IF_ERROR(Write(file, true, [&](FILE* out) { return std::fprintf(out, "%s\n", token.c_str()) > 0 ? 1 : 0; }));
  std::cerr << "The token is in " << file << ".\n";
  return absl::OkStatus();
}

// INVALID_ARGUMENT: one of them is none that a server knows.
absl::StatusOr<std::vector<std::string>> RolesOf(const std::string& roles) {
  std::vector<std::string> list = absl::StrSplit(roles, ',');
  for (const std::string& role : list) {
    if (role == "infer" || role == "train" || role == "publish" || role == "admin" || role == "follow" || role == "member")
      continue;
    return absl::InvalidArgumentError(absl::StrCat("--roles: '", role,
                                                   "' is no role; want infer, train, publish, admin, follow or member, or "
                                                   "several with commas"));
  }
  return list;
}

// INVALID_ARGUMENT: no server takes the name, NAME or TENANT/NAME.
absl::Status CheckCaller(const std::string& name) {
  const size_t tenant = name.find('/') == std::string::npos ? 0 : name.find('/') + 1;
  const bool has_control = std::any_of(name.begin(), name.end(), [](char c) { return absl::ascii_iscntrl(c); });
  if (name.size() > tenant && name.size() - tenant <= kLongestCaller && !has_control) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", absl::CEscape(name),
                                                 "' is no caller's name; want NAME or TENANT/NAME, where "
                                                 "NAME has 1 to ",
                                                 kLongestCaller, " bytes without control characters"));
}

// The name as a word of the file of identities: a blank would end it there, and a '#' begin a comment.
std::string ToWord(const std::string& name) { return absl::StrReplaceAll(name, {{"%", "%25"}, {" ", "%20"}, {"#", "%23"}}); }

absl::Status MakeToken(const std::string& name, const std::string& roles, const std::string& file) {
  std::string bytes(kTokenBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), kTokenBytes) != 1) {
    return absl::InternalError("the system has no random numbers");
  }
  const std::string token = absl::WebSafeBase64Escape(bytes);
  GLUOND_RETURN_IF_ERROR(WriteToken(file, token));
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), reinterpret_cast<unsigned char*>(digest.data()));
  std::cout << ToWord(name) << " " << roles << " sha256:" << absl::BytesToHexString(digest) << "\n";
  return absl::OkStatus();
}

absl::Status MakeJwt(const std::string& key, const JwtClaims& claims, const std::string& file) {
  GLUOND_ASSIGN_OR_RETURN(const JwtSigner signer, JwtSigner::Read(key));
  GLUOND_ASSIGN_OR_RETURN(const std::string token, signer.Sign(claims));
  GLUOND_RETURN_IF_ERROR(WriteToken(file, token));
  std::cout << signer.public_key();
  return absl::OkStatus();
}

}  // namespace

absl::Status Token(const Arguments& arguments) {
  std::string name, roles = "infer", file, key, issuer, audience;
  absl::Duration lifetime = absl::Hours(1);
  Options options("gluond token",
                  "Makes a bearer token. The file has the token, for the client; the line that is printed is for the "
                  "server's file --identities, and has only the token's hash. With --jwt_key it makes a JSON Web Token, and "
                  "prints the public key for the server's file --jwt_keys.");
  options.AddExample("gluond token alice --roles=train,publish --file=alice.token >>identities");
  options.AddExample("gluond token alice --roles=train --jwt_key=tls/ca.key --issuer=me --audience=gluond >keys.pem");
  options.AddPositional("NAME", &name, "The name in logs of whoever has the token; a tenant's: TENANT/NAME.");
  options.Add("roles", &roles,
              "What he may do: infer, train, publish, admin, follow or member (other servers), or several with commas.");
  options.Add("file", &file,
              "Where the token is written, readable for its owner alone. Default: NAME.token, with a dot for a slash.");
  options.Add("jwt_key", &key, "A private key in PEM, of RSA or the curve P-256, that signs a JSON Web Token.");
  options.Add("issuer", &issuer, "The server's --jwt_issuer, for such a token.");
  options.Add("audience", &audience, "The server's --jwt_audience, for such a token.");
  options.Add("lifetime", &lifetime, "For how long such a token is good. Below 0: it has expired.");
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  if (name.empty()) return absl::InvalidArgumentError("whose token? Give a NAME");
  GLUOND_RETURN_IF_ERROR(CheckCaller(name));
  if (file.empty()) file = absl::StrCat(absl::StrReplaceAll(name, {{"/", "."}}), ".token");
  GLUOND_ASSIGN_OR_RETURN(const std::vector<std::string> list, RolesOf(roles));
  if (key.empty()) {
    if (!issuer.empty() || !audience.empty()) {
      return absl::InvalidArgumentError("--issuer and --audience are a JSON Web Token's; name the key that signs it by --jwt_key");
    }
    return MakeToken(name, roles, file);
  }
  if (issuer.empty() || audience.empty()) {
    return absl::InvalidArgumentError("--jwt_key wants --issuer and --audience: the server's --jwt_issuer and --jwt_audience");
  }
  const absl::Time now = absl::Now();
  return MakeJwt(key, {issuer, audience, name, list, now, now + lifetime}, file);
}

absl::Status Certificates(const Arguments& arguments) {
  std::string folder, hosts = "localhost,127.0.0.1,::1", client = "client";
  int64_t days = 30;
  Options options("gluond certificates",
                  "Makes a certificate authority of its own (ca.pem), a server's certificate (server.pem, server.key) and a "
                  "client's (client.pem, client.key). For tests: whoever can read ca.key can make more, and JSON Web Tokens by "
                  "`gluond token NAME --jwt_key=FOLDER/ca.key`.");
  options.AddExample("gluond certificates tls --hosts=localhost,127.0.0.1");
  options.AddPositional("FOLDER", &folder, "Where they are written; made if missing.");
  options.Add("hosts", &hosts, "Names and addresses by which clients call the server, with commas.");
  options.Add("client", &client, "The name in the client's certificate.");
  options.Add("days", &days, "For how long they are good. Below 0: they have expired.");
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  if (folder.empty()) return absl::InvalidArgumentError("where to? Give a FOLDER");
  if (days < -kMostDays || days > kMostDays) {
    return absl::InvalidArgumentError(absl::StrCat("--days is ", days, "; want ", -kMostDays, " to ", kMostDays));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  GLUOND_ASSIGN_OR_RETURN(const auto authority,
                          Make(folder, "ca", "gluond test authority", "", std::max<int64_t>(days, 1), nullptr));
  const Signer signer = {authority.second.get(), authority.first.get()};
  GLUOND_RETURN_IF_ERROR(Make(folder, "server", "gluond", NamesOf(hosts), days, &signer).status());
  GLUOND_RETURN_IF_ERROR(Make(folder, "client", client, NamesOf(client), days, &signer).status());
  std::cout << "gluond serve --tls_cert=" << folder << "/server.pem --tls_key=" << folder
            << "/server.key --tls_client_ca=" << folder << "/ca.pem\ngluond health --tls_ca=" << folder
            << "/ca.pem --tls_cert=" << folder << "/client.pem --tls_key=" << folder << "/client.key\n";
  return absl::OkStatus();
}

}  // namespace gluond::cli
