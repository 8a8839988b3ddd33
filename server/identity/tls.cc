#include "server/identity/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/core/status_macros.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace gluond::server {
namespace {

// The watcher looks at the files so often.
constexpr unsigned kSeconds = 2;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status Bad(absl::string_view flag, const std::string& path, absl::string_view why) {
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat(flag, "=", path, " ", why));
}

absl::StatusOr<Bio> Open(absl::string_view flag, const std::string& path) {
  Bio file(BIO_new_file(path.c_str(), "r"), &BIO_free_all);
  if (file == nullptr) return Bad(flag, path, "cannot be read");
  return file;
}

absl::StatusOr<Certificate> ReadCertificate(absl::string_view flag, const std::string& path) {
  ASSIGN_OR_RETURN(const Bio file, Open(flag, path));
  Certificate certificate(PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), &X509_free);
  if (certificate == nullptr) return Bad(flag, path, "has no certificate in the format PEM");
  return certificate;
}

// A key with a password would be asked for on the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<Key> ReadKey(absl::string_view flag, const std::string& path) {
  ASSIGN_OR_RETURN(const Bio file, Open(flag, path));
  Key key(PEM_read_bio_PrivateKey(file.get(), nullptr, &NoPassword, nullptr), &EVP_PKEY_free);
  if (key == nullptr) return Bad(flag, path, "has no private key in the format PEM, or one with a password");
  return key;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty()) {
    return absl::FailedPreconditionError("TLS needs both --tls_cert and --tls_key");
  }
  ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate("--tls_cert", files.certificate));
  ASSIGN_OR_RETURN(const Key key, ReadKey("--tls_key", files.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Bad("--tls_key", files.key, absl::StrCat("is not the key of --tls_cert=", files.certificate));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return Bad("--tls_cert", files.certificate, "has expired");
  }
  if (files.client_authority.empty()) return absl::OkStatus();
  return ReadCertificate("--tls_client_ca", files.client_authority).status();
}

grpc_server_credentials* TlsCredentials(const TlsFiles& files) {
  namespace tls = grpc::experimental;
  const bool asks = !files.client_authority.empty();
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.client_authority, kSeconds));
  options.watch_identity_key_cert_pairs();
  if (asks) options.watch_root_certs();
  options.set_cert_request_type(asks ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                     : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc_tls_server_credentials_create(options.c_credentials_options());
}

}  // namespace gluond::server
