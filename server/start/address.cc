#include "server/start/address.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gluond::server {
namespace {

// A dotted IPv4 address of the net 127/8.
bool IsLoopbackV4(absl::string_view host) {
  const std::vector<absl::string_view> parts = absl::StrSplit(host, '.');
  for (absl::string_view part : parts) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 0 || number > 255) return false;
  }
  return parts.size() == 4 && parts[0] == "127";
}

}  // namespace

bool IsLocal(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const size_t colon = address.rfind(':');
  const absl::string_view host = absl::string_view(address).substr(0, colon);
  return host == "localhost" || host == "[::1]" || IsLoopbackV4(host);
}

absl::Status CheckAddress(const std::string& address, bool identified, bool insecure_public) {
  int port = -1;
  const bool has_port = absl::SimpleAtoi(absl::string_view(address).substr(address.rfind(':') + 1), &port);
  if (!absl::StartsWith(address, "unix:") && (!has_port || port < 0 || port > 65535)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--address=", address, " is no address; want HOST:PORT with a port up to 65535, or unix:PATH"));
  }
  if (identified || insecure_public || IsLocal(address)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--address=", address, " can be reached from other machines, without encryption or without a question who calls: set --tls_cert, "
      "--tls_key and one of --identities and --tls_client_ca, listen on 127.0.0.1 and forward a port (ssh -L), or accept "
      "the risk with --insecure_public"));
}

}  // namespace gluond::server
