#include "server/rpc/way_to_server.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "server/config/operator_file.h"
#include "server/start/address.h"

namespace gluond::server {
namespace {

// gRPC takes no more metadata than that.
constexpr size_t kLongestToken = 8192;
constexpr size_t kLongestPem = size_t{1} << 20;

absl::StatusOr<std::string> ReadToken(const std::string& flag, const std::string& path) {
  ASSIGN_OR_RETURN(std::string token, ReadFlagsFile(flag, path, kLongestToken));
  absl::StripAsciiWhitespace(&token);
  if (path.empty() || (!token.empty() && std::all_of(token.begin(), token.end(), absl::ascii_isgraph))) return token;
  return Invalid(flag, "=", path, " has no token: want one line of printable ASCII without blanks");
}

absl::StatusOr<std::string> ReadAuthority(const std::string& flag, const std::string& path) {
  ASSIGN_OR_RETURN(std::string authority, ReadFlagsFile(flag, path, kLongestPem));
  if (!path.empty() && authority.empty()) return Invalid(flag, "=", path, " is empty: want certificates in PEM");
  return authority;
}

}  // namespace

absl::StatusOr<WayToServer> WayToServer::Open(const Options& options) {
  const std::string authority_flag = absl::StrCat(options.flag, "_ca"), token_flag = absl::StrCat(options.flag, "_token_file");
  ASSIGN_OR_RETURN(const std::string authority, ReadAuthority(authority_flag, options.authority));
  ASSIGN_OR_RETURN(const std::string token, ReadToken(token_flag, options.token_file));
  if (!token.empty() && authority.empty() && !IsLocal(options.address)) {
    return Invalid("the token of ", token_flag, " would travel to ", options.address,
                   " in clear; name the authority of the leader's certificate by ", authority_flag, "=FILE");
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.most_bytes);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // No wait that an earlier connection has left.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto credentials = authority.empty() ? grpc::InsecureChannelCredentials() : grpc::SslCredentials({authority, "", ""});
  return WayToServer(grpc::CreateCustomChannel(options.address, credentials, arguments),
                     token.empty() ? "" : absl::StrCat("Bearer ", token));
}

void WayToServer::Prepare(grpc::ClientContext* context) const {
  if (!authorization_.empty()) context->AddMetadata("authorization", authorization_);
}

}  // namespace gluond::server
