#include "client/cpp/channel.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gluond/status_macros.h"
#include "grpcpp/support/client_interceptor.h"

namespace gluond::client {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The text of a file; of no file, an empty one.
absl::StatusOr<std::string> Read(const char* what, const std::string& path) {
  if (path.empty()) return "";
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.str().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(what, "=", path, " cannot be read, or is empty"));
  }
  return text.str();
}

// Whether nobody but this machine can have the address: a name may be anybody's, be it 127.example.org.
bool IsLocal(const std::string& address) {
  for (const char* host : {"unix:", "unix-abstract:", "localhost:", "[::1]:"}) {
    if (absl::StartsWith(address, host)) return true;
  }
  in_addr number;
  return inet_pton(AF_INET, address.substr(0, address.rfind(':')).c_str(), &number) == 1 &&
         ntohl(number.s_addr) >> 24 == IN_LOOPBACKNET;
}

// The token of a file; of no file, an empty one.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  GLUOND_ASSIGN_OR_RETURN(const std::string text, Read("token_file", path));
  const std::string token(absl::StripAsciiWhitespace(text));
  if (path.empty() || (!token.empty() && std::all_of(token.begin(), token.end(), absl::ascii_isgraph))) return token;
  return absl::InvalidArgumentError(
      absl::StrCat("token_file=", path, " has no token: want one line of printable ASCII without blanks"));
}

// gRPC's call credentials demand encryption, which a Unix socket and a proxy on this machine need not have.
class WithToken final : public grpc::experimental::Interceptor {
 public:
  explicit WithToken(const std::string& authorization) : authorization_(authorization) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", authorization_);
    }
    methods->Proceed();
  }

 private:
  const std::string& authorization_;
};

class TokenFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenFactory(absl::string_view token) : authorization_(absl::StrCat("Bearer ", token)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo*) override {
    return new WithToken(authorization_);
  }

 private:
  const std::string authorization_;
};

}  // namespace

Access Access::FromEnvironment() {
  return {Variable("GLUOND_TLS_CA"), Variable("GLUOND_TLS_CERT"), Variable("GLUOND_TLS_KEY"), Variable("GLUOND_TOKEN_FILE")};
}

grpc::ChannelArguments NewChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // The server's limits decide.
  arguments.SetMaxSendMessageSize(-1);
  // A server that is started anew is found within a second or two. gRPC alone would wait up to two minutes, and half a
  // minute before it looks up a name again, which comes before the next connection.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
  // A proxy for web pages, which clusters put into each environment, would come between this machine and its own server.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> NewChannel(const std::string& address, const Access& access,
                                                          const grpc::ChannelArguments& arguments) {
  GLUOND_ASSIGN_OR_RETURN(const std::string authorities, Read("tls_ca", access.tls_ca));
  GLUOND_ASSIGN_OR_RETURN(const std::string certificate, Read("tls_cert", access.tls_cert));
  GLUOND_ASSIGN_OR_RETURN(const std::string key, Read("tls_key", access.tls_key));
  GLUOND_ASSIGN_OR_RETURN(const std::string token, ReadToken(access.token_file));
  if (certificate.empty() != key.empty() || (!certificate.empty() && authorities.empty())) {
    return absl::InvalidArgumentError("tls_cert, tls_key and tls_ca go together: give all three, or tls_ca alone");
  }
  if (!token.empty() && authorities.empty() && !IsLocal(address)) {
    return absl::InvalidArgumentError(absl::StrCat("the token of token_file would travel to ", address,
                                                   " in clear; give tls_ca, the authority of the server's certificate"));
  }
  const auto credentials =
      authorities.empty() ? grpc::InsecureChannelCredentials() : grpc::SslCredentials({authorities, key, certificate});
  if (token.empty()) return grpc::CreateCustomChannel(address, credentials, arguments);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<TokenFactory>(token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, arguments, std::move(interceptors));
}

bool IsUnreachable(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && status.error_details().empty();
}

std::string WayOut(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return "Name the file of a token: token_file (--token_file, or GLUOND_TOKEN_FILE).";
  }
  if (!IsUnreachable(status)) return "";
  const auto has = [text = absl::AsciiStrToLower(status.error_message())](const char* word) {
    return absl::StrContains(text, word);
  };
  if (has("http1")) return "A server of HTTP/1 is there, and none of gRPC.";
  if (has("wrong version number") || has("wrong_version_number")) {
    return "What is there speaks no TLS: leave tls_ca out (--tls_ca, GLUOND_TLS_CA).";
  }
  if (has("closed") || has("connection reset")) {
    return "What is there takes connections and closes them: does it want TLS? Name its authority: tls_ca (--tls_ca, or "
           "GLUOND_TLS_CA).";
  }
  return "Is the server running there, and is the address right? `gluond serve` starts one.";
}

}  // namespace gluond::client
