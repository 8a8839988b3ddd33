#include "server/process.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/core/mutex.h"
#include "engine/core/start_thread.h"
#include "engine/core/status_macros.h"
#include "server/rpc/log.h"
#include "server/server.h"
#include "server/start/protocol.h"
#include "server/start/signals.h"
#include "server/start/standard_output.h"

namespace gluond::server {
namespace {

std::string Started(const Server& server, const ServerOptions& options) {
  std::string text = Release();
  for (const Place* place : server.devices().offered()) {
    absl::StrAppend(&text, "  device ", place->device.ToString(), ": ", place->description);
    const int threads = place->lanes->compute_threads();
    if (threads > 0) absl::StrAppend(&text, ", ", threads, " threads");
    absl::StrAppend(&text, ", up to ", place->budget->limit() >> 20, " MiB of tensors\n");
  }
  for (const OperatorLibrary& library : options.operator_libraries) {
    absl::StrAppend(&text, "  operators of ", library.path, ": ", absl::StrJoin(library.operators, ", "), "\n");
  }
  const std::string store = options.store_dir.empty() ? "none can be saved (set --store_dir)" : options.store_dir;
  absl::StrAppend(&text, "  checkpoints: ", store, "\n  limits: --max_message_bytes=", options.limits.max_message_bytes,
                  " --max_model_bytes=", options.limits.max_model_bytes, " --max_requests=", options.limits.max_requests,
                  " (--help lists all)\nlistening on ");
  // Clients dial the port that the kernel gave, not the 0 that asked for one.
  absl::string_view asked = options.address;
  const bool was_given = server.port() > 0 && absl::ConsumeSuffix(&asked, ":0");
  was_given ? absl::StrAppend(&text, asked, ":", server.port()) : absl::StrAppend(&text, options.address);
  if (server.metrics_port() > 0) absl::StrAppend(&text, "\nmetrics on port ", server.metrics_port());
  return text += '\n';
}

// Writes the file whole or not at all: a program that waits for it never reads half a number.
absl::Status WritePort(const std::string& path, int port) {
  const std::string temporary = absl::StrCat(path, ".", getpid());
  std::ofstream(temporary) << port << "\n";
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  std::remove(temporary.c_str());
  return Invalid("--port_file=", path, " cannot be written");
}

// Exit statuses: a server that was told to stop had to cut calls, or could not save its models; a GPU has failed.
constexpr int kCut = 3;
constexpr int kDeviceError = 4;
constexpr int kUnsaved = 5;

void OnDeviceError(const absl::Status& why, bool exits) {
  LogEvent("device_failed", LogLevel::kError, why.message());
  if (!exits) return;
  FlushLogs(kLastWords);
  _exit(kDeviceError);
}

int ExitStatus(int64_t cut, int64_t unsaved) {
  if (cut > 0) LogEvent("calls_cut", LogLevel::kError, absl::StrCat(cut, " calls or sessions had not ended and were cut"));
  if (unsaved > 0) {
    LogEvent("models_not_saved", LogLevel::kError, absl::StrCat(unsaved, " models were not saved as they were at the end"));
  }
  return unsaved > 0 ? kUnsaved : cut > 0 ? kCut : 0;
}

// A server that is being stopped; null when it has been.
struct Stopping {
  explicit Stopping(const Server* server) : server(server) {}
  Mutex mu;
  const Server* server ABSL_GUARDED_BY(mu);
};

// Ends the process when calls do not end although they were cancelled.
void StartWatchdog(std::shared_ptr<Stopping> stopping, std::chrono::seconds time) {
  std::thread watches;
  const bool started = TryToStart(&watches, [stopping = std::move(stopping), time] {
    std::this_thread::sleep_for(time);
    MutexLock lock(stopping->mu);
    const int64_t left = stopping->server == nullptr ? 0 : stopping->server->UnderWay();
    LogEvent("calls_not_ended", LogLevel::kError, absl::StrCat(left, " calls or sessions did not end although they were cut"));
    FlushLogs(kLastWords);
    _exit(kCut);
  });
  if (started) return watches.detach();
  LogEvent("no_thread", LogLevel::kWarning, "no thread is left to end calls that do not end by themselves; a second signal does");
}

// SIGHUP: the file --serve is read again. The log tells the outcome; a mistake changes nothing.
void Reload(Server* server, bool has_file) {
  server->HangUp([has_file](const absl::StatusOr<Declaration>& served) {
    if (served.ok()) return LogEvent("serve_read", LogLevel::kInfo, absl::StrCat("SIGHUP: it serves ", Summary(*served)));
    const LogLevel level = has_file ? LogLevel::kError : LogLevel::kWarning;  // There may be no file.
    LogEvent("serve_not_read", level, absl::StrCat("SIGHUP: ", served.status().message(), "; all goes on as before"));
  });
}

}  // namespace

absl::StatusOr<int> RunServer(ServerOptions options, const ProcessOptions& process) {
  options.on_device_error = [exits = process.exit_on_device_error](const absl::Status& why) { OnDeviceError(why, exits); };
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Start(options));
  LogToStdout(Started(*server, options));
  if (!process.port_file.empty()) RETURN_IF_ERROR(WritePort(process.port_file, server->port()));
  const int signal = WaitForStop([&] { Reload(server.get(), !options.serve.empty()); });
  const std::string after = process.lame_duck.count() == 0 ? "" : absl::StrCat(" after ", process.lame_duck.count(), " s");
  const std::string stops = absl::StrCat("signal ", signal, ": no new calls", after, "; those under way have ",
                                         process.grace.count(), " s; another signal ends at once\n");
  LogToStdout({stops, /*is_kept=*/true});
  const auto stopping = std::make_shared<Stopping>(server.get());
  StartWatchdog(stopping, process.lame_duck + process.grace + kLastWords + std::chrono::seconds(1));
  const int64_t cut = server->Drain(process.grace, process.lame_duck);
  const int status = ExitStatus(cut, server->unsaved());
  {
    MutexLock lock(stopping->mu);
    stopping->server = nullptr;
  }
  LogToStdout({"stopped\n", /*is_kept=*/true});
  return status;
}

}  // namespace gluond::server
