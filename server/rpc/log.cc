#include "server/rpc/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/core/error_info.h"
#include "engine/core/mutex.h"
#include "grpcpp/version_info.h"
#include "server/rpc/json_line.h"
#include "server/rpc/log_writer.h"

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

// Never destroyed: other threads may log until the end.
LogWriter& Stdout() {
  static LogWriter& writer = *new LogWriter(STDOUT_FILENO);
  return writer;
}
LogWriter& Stderr() {
  static LogWriter& writer = *new LogWriter(STDERR_FILENO);
  return writer;
}

Mutex& FilesMutex() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}
std::vector<LogWriter*>& Files() {
  static auto& files = *new std::vector<LogWriter*>;
  return files;
}

void LogOfGrpc(absl::string_view severity, absl::string_view file, int line, absl::string_view message) {
  static LogLimit& limit = *new LogLimit;
  const std::string where = absl::StrCat(file, ":", line);
  const std::optional<int64_t> left_out = limit.Admit(where);
  if (!left_out.has_value()) return;
  LogToStderr(absl::StrCat(BeginJsonLine("grpc"), ",\"severity\":", JsonQuoted(severity), ",\"where\":",
                           JsonQuoted(where), ",\"message\":", JsonExcerpt(message), ",\"left_out\":", *left_out, "}\n"));
}

// A member of a line's object, unless the value is empty.
std::string IfThere(absl::string_view name, absl::string_view value) {
  return value.empty() ? "" : absl::StrCat(",", JsonQuoted(name), ":", JsonQuoted(value));
}

#ifdef GLUOND_GRPC_LOGS_BY_ABSEIL
class GrpcLogSink final : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    LogOfGrpc(absl::LogSeverityName(entry.log_severity()), entry.source_filename(), entry.source_line(),
              entry.text_message());
  }
};
#endif

}  // namespace

absl::string_view CodeName(absl::StatusCode code) {
  static constexpr const char* kNames[] = {
      "OK",          "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED", "NOT_FOUND",
      "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
      "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",          "UNAVAILABLE",        "DATA_LOSS",         "UNAUTHENTICATED"};
  const auto i = static_cast<size_t>(code);
  return i < std::size(kNames) ? kNames[i] : "UNKNOWN";
}

std::string ToJsonLine(const FailedRequest& request, int64_t left_out) {
  return absl::StrCat(BeginJsonLine("request_failed"), ",\"method\":", JsonQuoted(request.method),
                      ",\"code\":", JsonQuoted(CodeName(request.status.code())),
                      ",\"message\":", JsonExcerpt(request.status.message()), ",\"peer\":", JsonQuoted(request.peer),
                      IfThere("client", request.client), ",\"bytes\":", request.bytes,
                      ",\"ms\":", absl::StrFormat("%.3f", request.milliseconds),
                      IfThere("request_id", request.request_id), IfThere("traceparent", request.traceparent),
                      left_out == 0 ? "" : absl::StrCat(",\"left_out\":", left_out), "}\n");
}

std::string ToJsonLine(const Audited& audited) {
  return absl::StrCat(BeginJsonLine("audit"), IfThere("caller", audited.caller), ",\"method\":", JsonQuoted(audited.method),
                      IfThere("target", audited.target), ",\"code\":", JsonQuoted(CodeName(audited.code)),
                      ",\"peer\":", JsonQuoted(audited.peer), IfThere("request_id", audited.request_id), "}\n");
}

void LogToStderr(absl::string_view line) { Stderr().Write(line); }

void LogToStdout(absl::string_view line) { Stdout().Write(line); }

absl::StatusOr<LogSink> LogToFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd < 0) return absl::PermissionDeniedError(absl::StrCat(path, " cannot be written: ", std::strerror(errno)));
  LogWriter& writer = *new LogWriter(fd);  // Never destroyed, as the others.
  MutexLock lock(FilesMutex());
  Files().push_back(&writer);
  return LogSink([&writer](absl::string_view line) { writer.Write(line); });
}

void FlushLogs(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  Stdout().Flush(timeout);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  Stderr().Flush(std::max(left, std::chrono::milliseconds(0)));
  MutexLock lock(FilesMutex());
  for (LogWriter* file : Files()) file->Flush(timeout);
}

void LogGrpcToStderr() {
#ifdef GLUOND_GRPC_LOGS_BY_ABSEIL
  // Errors, as gRPC itself has it where Abseil is not told; the variable GRPC_VERBOSITY still asks for more.
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kError);
  absl::AddLogSink(new GrpcLogSink);
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  absl::InitializeLog();
#else
  gpr_set_log_function([](gpr_log_func_args* args) {
    LogOfGrpc(gpr_log_severity_string(args->severity), args->file, args->line, args->message);
  });
#endif
}

void FailureLog::Failed(const FailedRequest& request) {
  if (absl::IsResourceExhausted(request.status)) CountRefusal(request.status);
  const std::optional<int64_t> left_out = limit_.Admit(absl::StrCat(request.method, " ", CodeName(request.status.code())));
  if (left_out.has_value()) sink_(ToJsonLine(request, *left_out));
}

void FailureLog::CountRefusal(const absl::Status& status) {
  const std::optional<ErrorInfo> info = InfoOf(status);
  if (!info.has_value() || info->reason != reason::kLimit || info->metadata.empty()) return;
  MutexLock lock(mu_);
  ++refusals_[info->metadata.front().second];
}

std::map<std::string, int64_t> FailureLog::Refusals() const {
  MutexLock lock(mu_);
  return refusals_;
}

void FailureLog::Ended(absl::string_view peer, absl::string_view reason) {
  const std::optional<int64_t> left_out = limit_.Admit(absl::StrCat("connection ended: ", reason));
  if (!left_out.has_value()) return;
  sink_(absl::StrCat(BeginJsonLine("connection_ended"), ",\"peer\":", JsonQuoted(peer), ",\"reason\":", JsonQuoted(reason),
                     *left_out == 0 ? "" : absl::StrCat(",\"left_out\":", *left_out), "}\n"));
}

void FailureLog::Sweep() { Tell(limit_.TakeLeftOut()); }

void FailureLog::Flush() { Tell(limit_.TakeAllLeftOut()); }

void FailureLog::Tell(const LogLimit::Counts& counts) {
  for (const auto& [reason, left_out] : counts) {
    sink_(absl::StrCat(BeginJsonLine("requests_failed"), ",\"reason\":", JsonQuoted(reason), ",\"left_out\":", left_out, "}\n"));
  }
}

}  // namespace gluond::server
