#include "server/start/address.h"

#include <arpa/inet.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// A dotted IPv4 address of the net 127/8.
bool IsLoopbackV4(const std::string& host) {
  in_addr v4;
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

bool IsUnix(absl::string_view address) { return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:"); }

bool IsNumber(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return true;
  return host.size() > 2 && host.front() == '[' && host.back() == ']' &&
         inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) == 1;
}

}  // namespace

bool AbslParseFlag(absl::string_view text, InsecurePublic* flag, std::string* error) {
  if (bool both = false; absl::SimpleAtob(text, &both)) {
    *flag = {both, both};
    return true;
  }
  *flag = {};
  for (const absl::string_view port : absl::StrSplit(text, ',')) {
    if (port != "grpc" && port != "metrics") {
      *error = absl::StrCat("'", port, "' is no port; want grpc, metrics or both of them with a comma, or nothing for both");
      return false;
    }
    (port == "grpc" ? flag->grpc : flag->metrics) = true;
  }
  return true;
}

std::string AbslUnparseFlag(const InsecurePublic& flag) {
  if (flag.grpc == flag.metrics) return flag.grpc ? "grpc,metrics" : "false";
  return flag.grpc ? "grpc" : "metrics";
}

const char* WithValue(const char* argument) {
  absl::string_view name = argument;
  if (!absl::ConsumePrefix(&name, "--") && !absl::ConsumePrefix(&name, "-")) return argument;
  if (name == "insecure_public") return "--insecure_public=true";
  return name == "noinsecure_public" ? "--insecure_public=false" : argument;
}

bool IsLocal(const std::string& address) {
  if (IsUnix(address)) return true;
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || IsLoopbackV4(host);
}

absl::Status CheckAddress(const std::string& address, bool identified, bool insecure_public) {
  int port = -1;
  const bool has_port = absl::SimpleAtoi(absl::string_view(address).substr(address.rfind(':') + 1), &port);
  if (!IsUnix(address) && (!has_port || port < 0 || port > 65535)) {
    return Invalid(
        "--address=", address,
        " is no address; want HOST:PORT with a port up to 65535 and a host such as 127.0.0.1, [::1] or a name, unix:PATH, or "
        "unix-abstract:NAME");
  }
  if (identified || insecure_public || IsLocal(address)) return absl::OkStatus();
  return FailedPrecondition(
      "--address=", address,
      " can be reached from other machines, without encryption or without a question who calls: set --tls_cert, --tls_key and one "
      "of --identities and --tls_client_ca, listen on 127.0.0.1 and forward a port (ssh -L), or accept the risk with "
      "--insecure_public=grpc");
}

absl::Status CheckFolderOf(const std::string& path, absl::string_view flag) {
  const size_t slash = path.find_last_of('/', path.find_last_not_of('/'));
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return absl::OkStatus();
  return FailedPrecondition(flag, ": ", path, " cannot be made, since ", folder, " is no folder");
}

absl::StatusOr<std::string> CheckMetricsAddress(const std::string& address, bool insecure_public, bool has_token) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  int port = -1;
  const bool has_port = colon != std::string::npos && absl::SimpleAtoi(address.substr(colon + 1), &port);
  if (!has_port || port < 0 || port > 65535 || !IsNumber(host)) {
    return Invalid("--metrics_address=", address, " is no address; want IP:PORT with a port up to 65535, as in 127.0.0.1:9100");
  }
  if (!insecure_public && !has_token && !IsLocal(address)) {
    return FailedPrecondition(
        "--metrics_address=", address,
        " can be reached from other machines, which then learn the names of models: ask for a token with --metrics_token_file, or "
        "accept that with --insecure_public=metrics");
  }
  return absl::StrCat(host, ":", port);
}

}  // namespace gluond::server
