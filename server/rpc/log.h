// Lines of JSON on stderr, for machines and people. Each is an event with its time and level, and one of few words for what
// has happened: one for each request that failed,
//
//   {"time":"2026-11-21T03:04:05.678Z","event":"request_failed","level":"warning",
//    "method":"/gluond.v1.ModelService/Predict","code":"NOT_FOUND","message":"...","peer":"ipv4:127.0.0.1:51234",
//    "bytes":31,"ms":0.2,"request_id":"4f5c..."}
//
// for each connection that the server has ended to protect the others,
//
//   {"time":"2026-11-21T03:04:05.678Z","event":"connection_ended","level":"warning","peer":"ipv4:127.0.0.1:51234",
//    "reason":"..."}
//
// and for whatever the server itself does or meets, with a sentence:
//
//   {"time":"2026-11-21T03:04:05.678Z","event":"model_not_saved","level":"error","message":"..."}
//
// A client that repeats a mistake for ever fills no disk. After so many lines of one method and code FailureLog counts further
// ones, in `left_out` of the next such line, or in a line of the event "requests_failed". Thread-safe.

#ifndef SERVER_RPC_LOG_H_
#define SERVER_RPC_LOG_H_

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/mutex.h"
#include "server/rpc/call_counts.h"
#include "server/rpc/log_limit.h"

namespace gluond::server {

struct FailedRequest {
  absl::string_view method;
  absl::Status status;
  std::string peer;
  int64_t bytes = 0;
  double milliseconds = 0;
  std::string client = {};  // The client's name for itself, where it gave one.
  // The metadata of the call, where it has them (trace_context.h).
  std::string request_id = {};
  std::string traceparent = {};
};

// `left_out`: so many requests like it have had no line since the last one.
std::string ToJsonLine(const FailedRequest& request, int64_t left_out = 0);

// A line for a log, or some that belong together. Made of any text, which outlives it.
struct LogLine {
  template <class Text>
  requires std::convertible_to<const Text&, absl::string_view> LogLine(const Text& text, bool is_kept = false)
      : text(text), is_kept(is_kept) {}
  operator absl::string_view() const { return text; }

  absl::string_view text;
  bool is_kept;  // As LogWriter::Write.
};

// A line of the last kind. A long message loses its end.
std::string EventLine(absl::string_view event, LogLevel level, absl::string_view message);
// One on stderr, for which there is room where calls' lines are dropped.
void LogEvent(absl::string_view event, LogLevel level, absl::string_view message);

// The destination of lines; tests listen in. Takes each line whole, and does not block.
using LogSink = std::function<void(const LogLine& line)>;
void LogToStderr(const LogLine& line);
void LogToStdout(const LogLine& line);
// Adds lines to a file, which is made where there is none; "-" is the standard output. A line may wait for others for as
// long as `linger`, so that many are written together. PERMISSION_DENIED: it cannot be written.
// `name`: the log's for CountDroppedLines.
absl::StatusOr<LogSink> LogToFile(const std::string& path, absl::string_view name, std::chrono::milliseconds linger = {});
// Looks whether such files have been moved or removed, as logrotate does: then the lines from here on go to a new file of
// the name. To be called now and then.
void FollowMovedLogs();
// A function that says whether the lines of a log are written: of a file by the name that LogToFile has given it, of "stdout", or
// else of stderr. It waits for no disk.
std::function<bool()> HealthOf(absl::string_view name);
// The lines that nobody took in time, or that could not be written, for each log of the process: "stderr", "stdout", and
// the files by their names.
std::vector<std::pair<std::string, int64_t>> CountDroppedLines();
// When this returns, all lines logged to any of them are written, or `timeout` has passed with nobody reading.
void FlushLogs(std::chrono::milliseconds timeout);
// From now on gRPC's own messages are lines of JSON on stderr, too: written where they arise, they could block its
// threads.
void LogGrpcToStderr();
// The least of gRPC's own messages that are logged. 0: errors; 1: what it does; 2: all that it says.
void SetGrpcVerbosity(uint32_t verbosity);
uint32_t GrpcVerbosity();

// Lines with the numbers of lines that a limit has left out.
void LogLeftOut(absl::string_view event, LogLimit& limit, LogLimit::Which which, const LogSink& sink);

class FailureLog {
 public:
  explicit FailureLog(LogSink sink);

  // The lines that are wanted; at first all.
  LogLevels& levels() { return levels_; }
  void Failed(const FailedRequest& request);
  // Counts a refusal by the limit of a flag, "--max_requests". Failed does so for requests.
  void CountRefusal(const std::string& flag);
  // How many refusals each flag has caused. All flags that limit a number or bytes are there.
  std::map<std::string, int64_t> Refusals() const;
  // Counts the commands of sessions that fail by the server's fault: they fail within a call that goes on.
  CallCounts& commands() { return commands_; }
  const CallCounts& commands() const { return commands_; }
  // `reason`: one of few texts.
  void Ended(absl::string_view peer, absl::string_view reason);
  // Logs the numbers of lines left out; to be called now and then, and in the end for all.
  void Sweep(LogLimit::Which which = LogLimit::kDue);

 private:
  const LogSink sink_;
  LogLevels levels_;
  LogLimit limit_;
  CallCounts commands_;
  mutable Mutex mu_;
  std::map<std::string, int64_t> refusals_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_RPC_LOG_H_
