#include "server/sight/metrics_server.h"

#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "civetweb.h"
#include "engine/core/start_thread.h"
#include "engine/core/status_macros.h"
#include "server/config/operator_file.h"
#include "server/identity/secret.h"
#include "server/net/descriptor.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestToken = 4096;
// A thread has a tenth of a processor that others want.
constexpr int kNice = 10;
constexpr std::chrono::milliseconds kBetweenWakes{5};  // While the server is stopping.

constexpr std::pair<const char*, const char*> kSettings[] = {{"num_threads", "4"},         {"connection_queue", "16"},
                                                             {"listen_backlog", "16"},     {"request_timeout_ms", "2000"},
                                                             {"max_request_size", "8192"}, {"enable_keep_alive", "no"}};

// Prometheus sends its token as it stands in its own file: without the end of the line.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  std::string text = ReadOperatorFile(path, kLongestToken).value_or("");
  absl::StripAsciiWhitespace(&text);
  if (!text.empty()) return text;
  return absl::InvalidArgumentError(absl::StrCat("--metrics_token_file=", path, " has no token: want one line of at most ",
                                                 kLongestToken, " bytes that this process may read"));
}

absl::string_view Text(const char* text) { return text == nullptr ? "" : text; }

}  // namespace

MetricsServer::MetricsServer(Options options, Pages pages) : options_(std::move(options)), pages_(std::move(pages)) {
  mg_init_library(MG_FEATURES_DEFAULT);
}

absl::Status MetricsServer::Check(const Options& options) {
  if (absl::StartsWith(options.address, "[") && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics_address=", options.address,
                     " cannot be had: the library for HTTP of this build has no IPv6; want an address of version 4, "
                     "as in 127.0.0.1:9100 or 0.0.0.0:9100"));
  }
  return options.token_file.empty() ? absl::OkStatus() : ReadToken(options.token_file).status();
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(Options options, Pages pages) {
  RETURN_IF_ERROR(Check(options));
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(options), std::move(pages)));
  std::vector<const char*> settings = {"listening_ports", server->options_.address.c_str()};
  for (const auto& [name, value] : kSettings) settings.insert(settings.end(), {name, value});
  settings.push_back(nullptr);
  mg_callbacks callbacks{};
  callbacks.begin_request = [](mg_connection* connection) {
    const auto* asked = static_cast<const MetricsServer*>(mg_get_request_info(connection)->user_data);
    return Send(connection, asked->AnswerTo(connection));
  };
  callbacks.http_error = [](mg_connection* connection, int code, const char*) {
    Send(connection, {code, ""});
    return 0;
  };
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };
  callbacks.init_thread = [](const mg_context*, int) -> void* {
    setpriority(PRIO_PROCESS, 0, kNice);  // The calling thread alone.
    return nullptr;
  };
  mg_init_data init{&callbacks, server.get(), settings.data()};
  char text[256] = "";
  unsigned code = 0;
  mg_error_data error{&code, text, sizeof(text)};
  server->context_ = mg_start2(&init, &error);
  if (server->context_ != nullptr) return server;
  return absl::UnavailableError(absl::StrCat("--metrics_address=", server->options_.address, " cannot be listened on: ",
                                             text[0] == '\0' ? "it is taken, or none of this machine's" : text));
}

MetricsServer::~MetricsServer() {
  if (context_ != nullptr) Stop();
  mg_exit_library();
}

// civetweb looks every two seconds whether it is to stop, and at once when a connection comes: one is made.
void MetricsServer::Stop() {
  const size_t colon = options_.address.rfind(':');
  std::string host = options_.address.substr(0, colon);
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const bool has_address = getaddrinfo(host.c_str(), std::to_string(port()).c_str(), &hints, &found) == 0;
  std::atomic<bool> stopped = false;
  std::thread stop;
  const bool started = TryToStart(&stop, [this, &stopped] {
    mg_stop(context_);
    stopped = true;
  });
  if (!started) mg_stop(context_), stopped = true;
  while (has_address && !stopped) {
    const Descriptor waking(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    connect(waking.get(), found->ai_addr, found->ai_addrlen);  // A failure does no harm: the next connection comes soon.
    std::this_thread::sleep_for(kBetweenWakes);
  }
  if (started) stop.join();
  if (has_address) freeaddrinfo(found);
}

int MetricsServer::port() const {
  mg_server_port port{};
  return mg_get_server_ports(context_, 1, &port) < 1 ? 0 : port.port;
}

int MetricsServer::Send(mg_connection* connection, const Answer& answer) {
  const std::string whole =
      absl::StrCat("HTTP/1.1 ", answer.code, " ", mg_get_response_code_text(connection, answer.code),
                   "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nCache-Control: no-store\r\nConnection: close\r\n",
                   answer.header, "Content-Length: ", answer.body.size(), "\r\n\r\n", answer.body);
  mg_write(connection, whole.data(), whole.size());
  mg_disable_keep_alive(connection);  // Otherwise civetweb reads a body to its end, which may never come.
  return answer.code;
}

MetricsServer::Answer MetricsServer::AnswerTo(const mg_connection* connection) const {
  const mg_request_info& request = *mg_get_request_info(connection);
  const absl::string_view path = Text(request.local_uri);
  if (path != "/metrics" && path != "/healthz" && path != "/readyz") {
    return {404, "there are /metrics, /healthz and /readyz\n"};
  }
  if (Text(request.request_method) != "GET") return {405, "want GET\n", "Allow: GET\r\n"};
  if (request.content_length > 0 || mg_get_header(connection, "Transfer-Encoding") != nullptr) {
    return {413, "want a request without a body\n"};
  }
  if (path == "/healthz") {
    const std::string what = pages_.what_hangs();
    return what.empty() ? Answer{200, "ok\n"} : Answer{503, what + "\n"};
  }
  if (path == "/readyz") {
    const std::string why = pages_.why_not_ready();
    return why.empty() ? Answer{200, "ready\n"} : Answer{503, why + "\n"};
  }
  if (!MayScrape(connection)) return {401, "want the token of --metrics_token_file\n", "WWW-Authenticate: Bearer\r\n"};
  return {200, pages_.metrics()};
}

// A file that has lost its token lets nobody in.
bool MetricsServer::MayScrape(const mg_connection* connection) const {
  if (options_.token_file.empty()) return true;
  const absl::StatusOr<std::string> token = ReadToken(options_.token_file);
  absl::string_view told = Text(mg_get_header(connection, "Authorization"));
  return token.ok() && absl::ConsumePrefix(&told, "Bearer ") && IsSecret(*token, told);
}

}  // namespace gluond::server
