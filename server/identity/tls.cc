#include "server/identity/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status Bad(const WatchedFile& file, absl::string_view why) {
  ERR_clear_error();
  return FailedPrecondition(file.flag(), "=", file.path(), " ", why);
}

Bio Open(const WatchedFile& file) {
  return Bio(BIO_new_mem_buf(file.text().data(), static_cast<int>(file.text().size())), &BIO_free_all);
}

absl::Time EndOf(const X509& certificate) {
  std::tm time = {};
  ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &time);
  return absl::FromTM(time, absl::UTCTimeZone());
}

// The first of the certificates. All are to be good, as gRPC wants them. Sets the end of the one that ends first.
absl::StatusOr<Certificate> ReadCertificates(const WatchedFile& file, absl::Time* end) {
  const Bio text = Open(file);
  const auto read = [&text] { return Certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &X509_free); };
  Certificate first = read();
  if (first == nullptr) return Bad(file, "has no certificate in the format PEM");
  *end = EndOf(*first);
  for (Certificate next = read(); next != nullptr; next = read()) *end = std::min(*end, EndOf(*next));
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!ended) return Bad(file, "has a certificate that is damaged");
  return first;
}

// A key with a password would be asked for on the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<Key> ReadKey(const WatchedFile& file) {
  Key key(PEM_read_bio_PrivateKey(Open(file).get(), nullptr, &NoPassword, nullptr), &EVP_PKEY_free);
  if (key == nullptr) return Bad(file, "has no private key in the format PEM, or one with a password");
  return key;
}

}  // namespace

TlsCertificates::TlsCertificates(const TlsFiles& files)
    : certificate_("--tls_cert", files.certificate),
      key_("--tls_key", files.key),
      client_authority_("--tls_client_ca", files.client_authority),
      asks_clients_(!files.client_authority.empty()) {}

absl::StatusOr<std::unique_ptr<TlsCertificates>> TlsCertificates::Load(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty()) {
    return FailedPrecondition("TLS needs both --tls_cert and --tls_key");
  }
  std::unique_ptr<TlsCertificates> certificates(new TlsCertificates(files));
  RETURN_IF_ERROR(certificates->Reload().status());
  return certificates;
}

absl::StatusOr<bool> TlsCertificates::Reload() {
  for (WatchedFile* const file : {&certificate_, &key_, &client_authority_}) {
    if (file == &client_authority_ && !asks_clients_) continue;
    ASSIGN_OR_RETURN(const bool changed, file->Look());
    changed_ = changed_ || changed;
  }
  if (!changed_ || !certificate_.is_still() || !key_.is_still() || !client_authority_.is_still()) return false;
  changed_ = false;
  absl::Time end, client_end;
  RETURN_IF_ERROR(Check(&end, &client_end));
  MutexLock lock(mu_);
  end_ = end;
  client_end_ = client_end;
  good_ = {certificate_.text(), key_.text(), asks_clients_ ? client_authority_.text() : ""};
  ++version_;
  return true;
}

absl::Status TlsCertificates::Check(absl::Time* end, absl::Time* client_end) const {
  ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificates(certificate_, end));
  ASSIGN_OR_RETURN(const Key key, ReadKey(key_));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Bad(key_, absl::StrCat("is not the key of --tls_cert=", certificate_.path()));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) return Bad(certificate_, "has expired");
  return asks_clients_ ? ReadCertificates(client_authority_, client_end).status() : absl::OkStatus();
}

std::vector<std::pair<std::string, absl::Time>> TlsCertificates::Ends() const {
  MutexLock lock(mu_);
  std::vector<std::pair<std::string, absl::Time>> ends = {{certificate_.flag(), end_}};
  if (asks_clients_) ends.emplace_back(client_authority_.flag(), client_end_);
  return ends;
}

grpc_server_credentials* TlsCertificates::NewCredentials() {
  MutexLock lock(mu_);
  Port* const port = ports_.emplace_back(std::make_unique<Port>(Port{.certificates = this})).get();
  return grpc_ssl_server_credentials_create_with_options(grpc_ssl_server_credentials_create_options_using_config_fetcher(
      asks_clients_ ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
      &TlsCertificates::Fetch, port));
}

grpc_ssl_certificate_config_reload_status TlsCertificates::Fetch(void* port, grpc_ssl_server_certificate_config** config) {
  Port& its = *static_cast<Port*>(port);
  TlsCertificates& all = *its.certificates;
  MutexLock lock(all.mu_);
  if (its.version == all.version_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  its.version = all.version_;
  const grpc_ssl_pem_key_cert_pair pair = {all.good_.key.c_str(), all.good_.certificate.c_str()};
  // gRPC wants some authority here even where it asks no client for a certificate.
  const std::string& authority = all.asks_clients_ ? all.good_.client_authority : all.good_.certificate;
  *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace gluond::server
