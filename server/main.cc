// gluond-server: trains and serves neural networks for remote clients.

#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/address.h"
#include "server/cpu_check.h"
#include "server/cuda_plugin.h"
#include "server/server.h"
#include "server/server_service.h"
#include "server/signals.h"

using gluond::server::Limits;

ABSL_FLAG(std::string, address, "127.0.0.1:50051", "HOST:PORT to listen on, or unix:PATH. Port 0 takes a free one.");
ABSL_FLAG(bool, insecure_public, false, "Allows an --address that other machines can reach, without encryption.");
ABSL_FLAG(std::string, port_file, "", "Writes the port to this file once the server listens.");
ABSL_FLAG(std::string, devices, "auto", "auto (every GPU found, then the CPU), cpu, gpu:0, or a list, the default first.");
ABSL_FLAG(std::string, cuda_plugin, "", "libgluond_cuda.so. Empty: looked for beside the server, in ../lib and ../ops.");
ABSL_FLAG(std::string, store_dir, "", "Folder for checkpoints; made if missing. Empty: nothing can be saved.");
ABSL_FLAG(int, cpu_threads, 0, "Threads that compute on the CPU. 0: one for each processor.");
ABSL_FLAG(int, drain_seconds, 30, "After SIGTERM or SIGINT, calls under way have so long before they are cancelled.");

ABSL_FLAG(int64_t, max_message_bytes, Limits().max_message_bytes, "Largest request or reply, at most 1 GiB.");
ABSL_FLAG(int64_t, max_memory_bytes, Limits().max_memory_bytes,
          "Most memory of the process: tensors, requests, replies, queues. 0: three quarters of what the machine, or the "
          "control group, has.");
ABSL_FLAG(int64_t, max_connections, Limits().max_connections, "Most connections. Those of one address: half of them.");
ABSL_FLAG(int64_t, max_requests, Limits().max_requests, "Most requests at work or waiting.");
ABSL_FLAG(int64_t, max_request_bytes, Limits().max_request_bytes, "Most bytes of all requests at work or waiting.");
ABSL_FLAG(int64_t, max_graph_nodes, Limits().max_graph_nodes, "Most nodes of one expanded graph.");
ABSL_FLAG(int64_t, max_model_bytes, Limits().max_model_bytes, "Most bytes of tensors held for one model.");
ABSL_FLAG(int64_t, max_tensor_bytes, Limits().max_tensor_bytes, "Most bytes of tensors held in all on one device.");
ABSL_FLAG(int64_t, max_models, Limits().max_models, "Most models.");
ABSL_FLAG(int64_t, max_datasets, Limits().max_datasets, "Most datasets.");
ABSL_FLAG(int64_t, max_clients, Limits().max_clients, "Most clients (per model) whose sequence numbers are remembered.");
ABSL_FLAG(int64_t, upload_lease_seconds, Limits().upload_lease_seconds, "A silent upload is forgotten after so long.");
ABSL_FLAG(int64_t, max_sessions, Limits().max_sessions, "Most sessions.");
ABSL_FLAG(int64_t, max_session_queue_bytes, Limits().max_session_queue_bytes,
          "Most bytes of commands and replies that wait in one session; as much again of replies that may be sent anew.");
ABSL_FLAG(int64_t, max_session_bytes, Limits().max_session_bytes,
          "Most bytes of tensors held for one session on one device.");
ABSL_FLAG(int64_t, max_session_arrays, Limits().max_session_arrays,
          "Most arrays of one session, most prepared calls, and most graphs.");
ABSL_FLAG(int64_t, session_lease_seconds, Limits().session_lease_seconds, "A silent session ends after so long.");
ABSL_FLAG(int64_t, callback_seconds, Limits().callback_seconds,
          "A client that computes an operator has so long for each call.");
ABSL_FLAG(int64_t, max_callbacks, Limits().max_callbacks, "Most calls that one such client has not answered.");

namespace gluond::server {
namespace {

Limits LimitsFromFlags() {
  Limits limits;
  limits.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  limits.max_memory_bytes = absl::GetFlag(FLAGS_max_memory_bytes);
  limits.max_connections = absl::GetFlag(FLAGS_max_connections);
  limits.max_requests = absl::GetFlag(FLAGS_max_requests);
  limits.max_request_bytes = absl::GetFlag(FLAGS_max_request_bytes);
  limits.max_graph_nodes = absl::GetFlag(FLAGS_max_graph_nodes);
  limits.max_model_bytes = absl::GetFlag(FLAGS_max_model_bytes);
  limits.max_tensor_bytes = absl::GetFlag(FLAGS_max_tensor_bytes);
  limits.max_models = absl::GetFlag(FLAGS_max_models);
  limits.max_datasets = absl::GetFlag(FLAGS_max_datasets);
  limits.max_clients = absl::GetFlag(FLAGS_max_clients);
  limits.upload_lease_seconds = absl::GetFlag(FLAGS_upload_lease_seconds);
  limits.max_sessions = absl::GetFlag(FLAGS_max_sessions);
  limits.max_session_queue_bytes = absl::GetFlag(FLAGS_max_session_queue_bytes);
  limits.max_session_bytes = absl::GetFlag(FLAGS_max_session_bytes);
  limits.max_session_arrays = absl::GetFlag(FLAGS_max_session_arrays);
  limits.session_lease_seconds = absl::GetFlag(FLAGS_session_lease_seconds);
  limits.callback_seconds = absl::GetFlag(FLAGS_callback_seconds);
  limits.max_callbacks = absl::GetFlag(FLAGS_max_callbacks);
  return limits;
}

// libgomp reads once, when it is loaded, how long its idle threads spin; by default long enough to take the processor
// from the threads that serve the network. So the program starts again with the setting, unless the user has made one.
void SetSpinning(char** argv) {
  if (getenv("OMP_WAIT_POLICY") != nullptr || getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "20000", 1);
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (length <= 0) return;
  self[length] = '\0';
  execv(self, argv);  // Returns only where it fails; then the default spinning does.
}

void PrintStart(const Server& server, const ServerOptions& options) {
  std::cout << "gluond-server " << kVersion << "\n";
  for (const Place* place : server.devices().offered()) {
    std::cout << "  device " << place->device.ToString() << ": " << place->description;
    if (place->threads > 0) std::cout << ", " << place->threads << " threads";
    std::cout << ", up to " << (place->budget->limit() >> 20) << " MiB of tensors\n";
  }
  std::cout << "  checkpoints: "
            << (options.store_dir.empty() ? "none can be saved (set --store_dir)" : options.store_dir) << "\n"
            << "  limits: --max_message_bytes=" << options.limits.max_message_bytes
            << " --max_model_bytes=" << options.limits.max_model_bytes
            << " --max_requests=" << options.limits.max_requests << " (--help lists all)\n"
            << "listening on " << options.address;
  if (server.port() > 0) std::cout << (options.address.ends_with(":0") ? absl::StrCat(", port ", server.port()) : "");
  std::cout << std::endl;
}

// Whole or not at all: who waits for the file never reads half a number.
absl::Status WritePort(const std::string& path, int port) {
  const std::string temporary = absl::StrCat(path, ".", getpid());
  std::ofstream(temporary) << port << "\n";
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  std::remove(temporary.c_str());
  return absl::InvalidArgumentError(absl::StrCat("--port_file=", path, " cannot be written"));
}

// Ends the process when calls do not end although they were cancelled.
void StartWatchdog(int seconds) {
  std::thread([seconds] {
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    LogToStderr("gluond-server: some calls did not end in time; stopping without them\n");
    _exit(0);
  }).detach();
}

absl::Status Main() {
  RETURN_IF_ERROR(CheckCpu());
  ServerOptions options;
  options.address = absl::GetFlag(FLAGS_address);
  options.devices = absl::GetFlag(FLAGS_devices);
  options.cpu_threads = absl::GetFlag(FLAGS_cpu_threads);
  options.store_dir = absl::GetFlag(FLAGS_store_dir);
  options.limits = LimitsFromFlags();
  RETURN_IF_ERROR(CheckAddress(options.address, absl::GetFlag(FLAGS_insecure_public)));
  if (options.devices == "auto" || absl::StrContains(options.devices, "gpu")) {
    const absl::Status loaded = LoadCudaPlugin(absl::GetFlag(FLAGS_cuda_plugin));
    if (!loaded.ok() && options.devices != "auto") return loaded;
    if (!loaded.ok()) std::cerr << "gluond-server: " << loaded.message() << "; computing on the CPU\n";
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Start(options));
  PrintStart(*server, options);
  if (!absl::GetFlag(FLAGS_port_file).empty()) {
    RETURN_IF_ERROR(WritePort(absl::GetFlag(FLAGS_port_file), server->port()));
  }
  const int signal = WaitForStop();
  const int grace = std::max(0, absl::GetFlag(FLAGS_drain_seconds));
  std::cout << "signal " << signal << ": no new calls; those under way have " << grace << " s" << std::endl;
  StartWatchdog(grace + 2);
  server->Drain(std::chrono::seconds(grace));
  std::cout << "stopped" << std::endl;
  return absl::OkStatus();
}

// Messages and tensors come and go by the hundred kilobytes. Their pages, given back at each free and asked for again,
// would cost more than what is computed: 64 MiB of them may stay.
void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}

}  // namespace
}  // namespace gluond::server

int main(int argc, char** argv) {
  gluond::server::SetSpinning(argv);
  gluond::server::KeepFreedMemory();
  absl::SetProgramUsageMessage("trains and serves neural networks for remote clients.\n\n  gluond-server [--address=HOST:PORT] "
                               "[--store_dir=FOLDER] ...");
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::cerr << "gluond-server: '" << rest[1] << "' is no flag; --help lists them\n";
    return 2;
  }
  gluond::server::CatchSignals();
  if (const absl::Status status = gluond::server::Main(); !status.ok()) {
    std::cerr << "gluond-server: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
