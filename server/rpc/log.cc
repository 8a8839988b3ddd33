#include "server/rpc/log.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "grpcpp/version_info.h"
#include "server/rpc/json_line.h"
#include "server/rpc/log_writer.h"
#include "server/start/limits.h"

// From 1.65 on gRPC logs by Abseil.
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
#include "grpc/support/log.h"
#else
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#define GLUOND_GRPC_LOGS_BY_ABSEIL
#endif

namespace gluond::server {
namespace {

// Never destroyed, as all writers: other threads may log until the end.
LogWriter& Stdout() {
  static LogWriter& writer = *new LogWriter(STDOUT_FILENO);
  return writer;
}
LogWriter& Stderr() {
  static LogWriter& writer = *new LogWriter(STDERR_FILENO);
  return writer;
}

Mutex& LogsMutex() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}
// The logs of the process by their names. Guarded by LogsMutex.
std::vector<std::pair<std::string, LogWriter*>>& Logs() {
  static auto& logs = *new std::vector<std::pair<std::string, LogWriter*>>{{"stderr", &Stderr()}, {"stdout", &Stdout()}};
  return logs;
}

void LogOfGrpc(absl::string_view severity, absl::string_view file, int line, absl::string_view message) {
  static LogLimit& limit = *new LogLimit;
  const std::string where = absl::StrCat(file, ":", line);
  const std::optional<int64_t> left_out = limit.Admit(where);
  if (!left_out.has_value()) return;
  const LogLevel level = absl::StartsWith(severity, "E") ? LogLevel::kError : LogLevel::kInfo;
  LogToStderr(absl::StrCat(BeginJsonLine("grpc", level), ",\"severity\":", JsonQuoted(severity), ",\"where\":", JsonQuoted(where),
                           ",\"message\":", JsonExcerpt(message), ",\"left_out\":", *left_out, "}\n"));
}

#ifdef GLUOND_GRPC_LOGS_BY_ABSEIL
class GrpcLogSink final : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    LogOfGrpc(absl::LogSeverityName(entry.log_severity()), entry.source_filename(), entry.source_line(), entry.text_message());
  }
};
#endif

}  // namespace

std::string ToJsonLine(const FailedRequest& request, int64_t left_out) {
  return absl::StrCat(BeginJsonLine("request_failed", LevelOf(request.status)), ",\"method\":", JsonQuoted(request.method),
                      ",\"code\":", JsonQuoted(absl::StatusCodeToString(request.status.code())),
                      ",\"message\":", JsonExcerpt(request.status.message()), ",\"peer\":", JsonQuoted(request.peer),
                      JsonIfThere("client", request.client), ",\"bytes\":", request.bytes,
                      ",\"ms\":", absl::StrFormat("%.3f", request.milliseconds), JsonIfThere("request_id", request.request_id),
                      JsonIfThere("traceparent", request.traceparent),
                      left_out == 0 ? "" : absl::StrCat(",\"left_out\":", left_out), "}\n");
}

std::string EventLine(absl::string_view event, LogLevel level, absl::string_view message) {
  return absl::StrCat(BeginJsonLine(event, level), ",\"message\":", JsonExcerpt(message), "}\n");
}

void LogEvent(absl::string_view event, LogLevel level, absl::string_view message) {
  LogToStderr({EventLine(event, level, message), /*is_kept=*/true});
}

void LogToStderr(const LogLine& line) { Stderr().Write(line, line.is_kept); }

void LogToStdout(const LogLine& line) { Stdout().Write(line, line.is_kept); }

absl::StatusOr<LogSink> LogToFile(const std::string& path, absl::string_view name, std::chrono::milliseconds linger) {
  if (path == "-") {
    Stdout().SetLinger(linger);
    return LogSink(&LogToStdout);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<LogWriter> opened, LogWriter::Open(path, linger));
  LogWriter& file = *opened.release();
  MutexLock lock(LogsMutex());
  Logs().emplace_back(name, &file);
  return LogSink([&file](const LogLine& line) { file.Write(line, line.is_kept); });
}

void FollowMovedLogs() {
  MutexLock lock(LogsMutex());
  for (const auto& [name, log] : Logs()) {
    const absl::Status followed = log->FollowMove();
    if (!followed.ok()) LogEvent("log_not_followed", LogLevel::kError, followed.message());
  }
}

std::function<bool()> HealthOf(absl::string_view name) {
  MutexLock lock(LogsMutex());
  const auto found = absl::c_find_if(Logs(), [name](const auto& log) { return log.first == name; });
  return [&writer = found == Logs().end() ? Stderr() : *found->second] { return writer.is_written(); };
}

std::vector<std::pair<std::string, int64_t>> CountDroppedLines() {
  std::vector<std::pair<std::string, int64_t>> counts;
  MutexLock lock(LogsMutex());
  for (const auto& [name, log] : Logs()) counts.emplace_back(name, log->lines_dropped());
  return counts;
}

// The files come first: no reader holds them up.
void FlushLogs(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(LogsMutex());
  for (auto log = Logs().rbegin(); log != Logs().rend(); ++log) log->second->Flush(end - std::chrono::steady_clock::now());
}

void LogGrpcToStderr() {
#ifdef GLUOND_GRPC_LOGS_BY_ABSEIL
  // Errors, as gRPC itself has it where Abseil is not told; the variable GRPC_VERBOSITY still asks for more.
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kError);
  absl::AddLogSink(new GrpcLogSink);
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  absl::InitializeLog();
#else
  gpr_set_log_function(
      [](gpr_log_func_args* args) { LogOfGrpc(gpr_log_severity_string(args->severity), args->file, args->line, args->message); });
#endif
}

void SetGrpcVerbosity(uint32_t verbosity) {
#ifdef GLUOND_GRPC_LOGS_BY_ABSEIL
  absl::SetMinLogLevel(verbosity == 0 ? absl::LogSeverityAtLeast::kError : absl::LogSeverityAtLeast::kInfo);
  absl::SetGlobalVLogLevel(verbosity < 2 ? 0 : 2);
#else
  constexpr gpr_log_severity kSeverities[] = {GPR_LOG_SEVERITY_ERROR, GPR_LOG_SEVERITY_INFO, GPR_LOG_SEVERITY_DEBUG};
  gpr_set_log_verbosity(kSeverities[std::min<size_t>(verbosity, 2)]);
#endif
}

uint32_t GrpcVerbosity() {
#ifdef GLUOND_GRPC_LOGS_BY_ABSEIL
  if (absl::MinLogLevel() > absl::LogSeverityAtLeast::kInfo) return 0;
  return ABSL_VLOG_IS_ON(2) ? 2 : 1;
#else
  if (gpr_should_log(GPR_LOG_SEVERITY_INFO) == 0) return 0;
  return gpr_should_log(GPR_LOG_SEVERITY_DEBUG) == 0 ? 1 : 2;
#endif
}

FailureLog::FailureLog(LogSink sink) : sink_(std::move(sink)) {
  for (const LimitFlag& flag : LimitFlags()) {
    if (absl::StartsWith(flag.name, "max_")) refusals_[absl::StrCat("--", flag.name)] = 0;
  }
}

void FailureLog::Failed(const FailedRequest& request) {
  if (absl::IsResourceExhausted(request.status)) {
    const std::optional<ErrorInfo> info = InfoOf(request.status);
    if (info.has_value() && info->reason == reason::kLimit && !info->metadata.empty()) {
      CountRefusal(info->metadata.front().second);
    }
  }
  if (!levels_.On(LevelOf(request.status))) return;
  const std::optional<int64_t> left_out =
      limit_.Admit(absl::StrCat(request.method, " ", absl::StatusCodeToString(request.status.code())));
  if (left_out.has_value()) sink_(ToJsonLine(request, *left_out));
}

void FailureLog::CountRefusal(const std::string& flag) {
  MutexLock lock(mu_);
  ++refusals_[flag];
}

std::map<std::string, int64_t> FailureLog::Refusals() const {
  MutexLock lock(mu_);
  return refusals_;
}

void FailureLog::Ended(absl::string_view peer, absl::string_view reason) {
  const std::optional<int64_t> left_out = limit_.Admit(absl::StrCat("connection ended: ", reason));
  if (!left_out.has_value()) return;
  sink_(absl::StrCat(BeginJsonLine("connection_ended", LogLevel::kWarning), ",\"peer\":", JsonQuoted(peer),
                     ",\"reason\":", JsonQuoted(reason), *left_out == 0 ? "" : absl::StrCat(",\"left_out\":", *left_out), "}\n"));
}

void FailureLog::Sweep(LogLimit::Which which) { LogLeftOut("requests_failed", limit_, which, sink_); }

void LogLeftOut(absl::string_view event, LogLimit& limit, LogLimit::Which which, const LogSink& sink) {
  for (const auto& [reason, left_out] : limit.TakeLeftOut(which)) {
    sink(absl::StrCat(BeginJsonLine(event, LogLevel::kWarning), ",\"reason\":", JsonQuoted(reason), ",\"left_out\":", left_out,
                      "}\n"));
  }
}

}  // namespace gluond::server
