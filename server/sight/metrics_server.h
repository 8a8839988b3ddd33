// MetricsServer answers Prometheus and probes over HTTP, on an address of its own:
//
//   GET /metrics    the metrics; where there is a token, for those who send `Authorization: Bearer TOKEN`
//   GET /healthz    200 while the process is well, else 503 with the loop that hangs (start/pulse.h)
//   GET /readyz     200 while the server serves, else 503 with the reason
//
// All other requests get a short 404, 405 or 413. Few threads answer, behind all others of the process, and a request must
// come within two seconds: more connections wait in line, and harm nobody but each other.

#ifndef SERVER_SIGHT_METRICS_SERVER_H_
#define SERVER_SIGHT_METRICS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct mg_connection;
struct mg_context;

namespace gluond::server {

class MetricsServer {
 public:
  struct Options {
    std::string address;     // "127.0.0.1:9100"; port 0 takes a free one.
    std::string token_file;  // Has one token, read anew for each request. Empty: everybody may see the metrics.
  };
  struct Pages {
    std::function<std::string()> metrics;
    std::function<std::string()> what_hangs;     // Empty: it is healthy.
    std::function<std::string()> why_not_ready;  // Empty: it is ready.
  };

  // INVALID_ARGUMENT: the file has no token, or the address is of version 6 and this build has none of these.
  static absl::Status Check(const Options& options);
  // UNAVAILABLE: the address is taken. INVALID_ARGUMENT: as Check.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(Options options, Pages pages);
  // Waits for the answers under way.
  ~MetricsServer();

  int port() const;

 private:
  struct Answer {
    int code = 200;
    std::string body;
    absl::string_view header = {};  // A whole line, or none.
  };

  MetricsServer(Options options, Pages pages);
  void Stop();
  static int Send(mg_connection* connection, const Answer& answer);
  Answer AnswerTo(const mg_connection* connection) const;
  bool MayScrape(const mg_connection* connection) const;

  const Options options_;
  const Pages pages_;
  mg_context* context_ = nullptr;
};

}  // namespace gluond::server

#endif  // SERVER_SIGHT_METRICS_SERVER_H_
