#include "server/sight/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/status/status.h"
#include "server/rpc/log.h"
#include "server/start/protocol.h"
#include "server/start/pulse.h"

namespace gluond::server {
namespace {

// The last bound of the histogram of batches.
constexpr int64_t kMostRows = 1024;

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }
double Seconds(const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; }

}  // namespace

std::string Metrics::Look() const {
  Families families;
  AddProcess(families);
  AddCalls(families);
  AddEndedCalls(families);
  AddConnections(families);
  AddCertificates(families);
  AddQueues(families);
  AddLoops(families);
  AddMemory(families);
  AddModels(families);
  AddVersions(families);
  AddCallbacks(families);
  AddStore(families);
  return families.ToText();
}

// The names that Prometheus's own clients give these.
void Metrics::AddProcess(Families& families) const {
  families.AddGauge("gluond_build_info", "1, labelled with the release and the commit it was built from.", 1,
                    {{"version", kVersion}, {"commit", Commit()}});
  families.AddGauge("process_start_time_seconds", "When the server started, since 1970.", Seconds(begun_.time_since_epoch()));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  families.AddCounter("process_cpu_seconds_total", "Processor time.", Seconds(used.ru_utime) + Seconds(used.ru_stime));
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  families.AddGauge("process_resident_memory_bytes", "Memory of the process, by the kernel.",
                    static_cast<double>(resident * sysconf(_SC_PAGESIZE)));
  std::error_code error;
  const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd", error), {});
  families.AddGauge("process_open_fds", "File descriptors.", static_cast<double>(open));
}

// The server, and no caller, makes the names of methods and tenants, which bounds the number of series. The calls of each
// tenant are apart. A caller of no tenant has no label for the tenant, which to Prometheus is an empty label.
void Metrics::AddEndedCalls(Families& families) const {
  const auto add = [&families](const std::string& method, absl::StatusCode code, int64_t ended, const std::string& tenant) {
    Families::Labels labels = {{"method", method}, {"code", std::string(CodeName(code))}};
    if (!tenant.empty()) labels.push_back({"tenant", tenant});
    families.AddCounter("gluond_requests_total", "Calls that have ended, by method, code and the caller's tenant.",
                        static_cast<double>(ended), std::move(labels));
  };
  Faults faults{}, of_commands{};
  const auto add_all = [&](const std::string& method, const CallCounts& counts) {
    for (size_t i = 0; i < CallCounts::kCodes; ++i) {
      const auto code = static_cast<absl::StatusCode>(i);
      const int64_t ended = counts.ended(code);
      if (ended > 0 || code == absl::StatusCode::kOk) add(method, code, ended, "");
    }
    for (size_t i = 0; i < CallCounts::kCodes; ++i) faults[i] += counts.servers_faults(static_cast<absl::StatusCode>(i));
  };
  for (const auto& service : parts_.services) {
    for (const auto& row : service->rows()) add_all(row->method.path, *row->counts);
  }
  add_all("unknown", parts_.router.unknown());
  for (const TenantPtr& tenant : parts_.runner.tenants.List()) {
    for (const auto& [call, ended] : tenant->ended()) add(call.first, call.second, ended, tenant->name());
  }
  for (size_t i = 0; i < CallCounts::kCodes; ++i) {
    of_commands[i] = parts_.runner.log.commands().servers_faults(static_cast<absl::StatusCode>(i));
  }
  AddFaults(families, "call", faults);
  AddFaults(families, "session_command", of_commands);
}

// A rate wants a series before its first failure, so there is one for each code from the start.
void Metrics::AddFaults(Families& families, const std::string& kind, const Faults& faults) {
  for (size_t i = 0; i < CallCounts::kCodes; ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (LevelOf(code, /*reason=*/"") != LogLevel::kError) continue;
    families.AddCounter("gluond_server_faults_total",
                        "Calls, and commands of sessions, that failed by no doing of their "
                        "callers, by code.",
                        static_cast<double>(faults[i]), {{"kind", kind}, {"code", std::string(CodeName(code))}});
  }
}

void Metrics::AddCalls(Families& families) const {
  const auto add = [&](const std::string& method, const CallCounts& counts) {
    const Latency::Counts times = counts.latency().Read();
    const auto is_empty = [](int64_t bucket) { return bucket == 0; };
    // Hundreds of lines would tell of methods that nobody calls.
    if (std::all_of(times.buckets.begin(), times.buckets.end(), is_empty)) return;
    families.AddLatency("gluond_request_seconds",
                        "Calls by their time, from the headers to the last word. A stream is "
                        "one.",
                        times, {{"method", method}});
  };
  for (const auto& service : parts_.services) {
    for (const auto& row : service->rows()) add(row->method.path, *row->counts);
  }
  add("unknown", parts_.router.unknown());
  families.AddGauge("gluond_requests_in_flight", "Requests at work or waiting.",
                    static_cast<double>(parts_.runner.requests.held()));
  families.AddGauge("gluond_request_bytes_in_flight", "Bytes of requests at work or waiting.",
                    static_cast<double>(parts_.runner.request_bytes.held()));
  for (const auto& [limit, count] : parts_.runner.log.Refusals()) {
    families.AddCounter("gluond_refusals_total", "Calls and commands of sessions that a limit has refused, by its flag.",
                        static_cast<double>(count), {{"limit", limit}});
  }
  for (const auto& [phase, latency] : {std::pair("queue", &parts_.runner.queued), std::pair("compute", &parts_.runner.computed),
                                       std::pair("callbacks", &parts_.runner.called_back)}) {
    families.AddLatency("gluond_phase_seconds",
                        "Parts of training calls by the time of a phase: the wait for model "
                        "and lane, the computation, and the wait for clients' operators within it.",
                        latency->Read(), {{"phase", phase}});
  }
  for (const auto& [log, lines] : CountDroppedLines()) {
    families.AddCounter("gluond_log_lines_dropped_total",
                        "Lines of a log that nobody took in time, or that could not be "
                        "written.",
                        static_cast<double>(lines), {{"log", log}});
  }
  families.AddGauge("gluond_sessions", "Sessions now.", static_cast<double>(parts_.sessions()));
  families.AddGauge("gluond_datasets", "Datasets now.", static_cast<double>(parts_.datasets()));
}

void Metrics::AddCertificates(Families& families) const {
  if (parts_.tls == nullptr) return;
  for (const auto& [flag, end] : parts_.tls->Ends()) {
    families.AddGauge("gluond_certificate_expiry_timestamp_seconds",
                      "The moment, in seconds since 1970, at which the first of a flag's certificates is over.",
                      static_cast<double>(absl::ToUnixSeconds(end)), {{"flag", flag}});
  }
}

void Metrics::AddConnections(Families& families) const {
  const Listener* const listener = parts_.listener;
  if (listener == nullptr) return;
  families.AddGauge("gluond_connections", "Connections now.", static_cast<double>(listener->connections()));
  families.AddCounter("gluond_connections_accepted_total", "Connections that have come.",
                      static_cast<double>(listener->accepted()));
  families.AddCounter("gluond_connections_dropped_total", "Connections closed to make room for others.",
                      static_cast<double>(listener->dropped()));
  for (size_t i = 0; i < kEndings; ++i) {
    const auto ending = static_cast<Ending>(i);
    families.AddCounter("gluond_connections_ended_total", "Connections that the server has ended, by its reason.",
                        static_cast<double>(listener->ended(ending)), {{"reason", std::string(NameOf(ending))}});
  }
}

void Metrics::AddQueues(Families& families) const {
  for (const auto& [name, load] : parts_.runner.dispatch.queues()) {
    const Families::Labels labels = {{"queue", name}};
    families.AddGauge("gluond_dispatch_queue_length", "Works that wait for a thread.", static_cast<double>(load.waiting), labels);
    families.AddCounter("gluond_dispatch_works_total", "Works that a thread has taken.", static_cast<double>(load.taken), labels);
    families.AddCounter("gluond_dispatch_wait_seconds_total", "Their wait in all.", Seconds(load.waited), labels);
    families.AddGauge("gluond_dispatch_longest_wait_seconds", "The longest of these waits.", Seconds(load.longest), labels);
    families.AddCounter("gluond_dispatch_busy_seconds_total",
                        "The time for which works have held threads. Its rate is the "
                        "number of threads at work.",
                        Seconds(load.worked), labels);
    AddRunning(families, name, load.longest_work);
  }
}

void Metrics::AddRunning(Families& families, const std::string& kind, std::chrono::nanoseconds time) {
  families.AddGauge("gluond_longest_running_seconds",
                    "So long the oldest work under way has gone on, by what does it: a "
                    "queue's threads, or clients that compute an operator.",
                    Seconds(time), {{"kind", kind}});
}

void Metrics::AddLoops(Families& families) {
  for (const auto& [loop, silent] : Pulse::All()) {
    families.AddGauge("gluond_loop_silent_seconds",
                      "The time since a loop of the server's own has gone round. It hangs where "
                      "that is more than 30.",
                      Seconds(silent), {{"loop", loop}});
  }
}

void Metrics::AddMemory(Families& families) const {
  const auto add = [&](const std::string& owner, const Budget& budget) {
    const Families::Labels labels = {{"owner", owner}};
    families.AddGauge("gluond_memory_bytes", "Bytes charged to a budget.", static_cast<double>(budget.used()), labels);
    families.AddGauge("gluond_memory_peak_bytes", "The most that were charged at once.", static_cast<double>(budget.peak()),
                      labels);
    families.AddGauge("gluond_memory_limit_bytes", "The budget's limit.", static_cast<double>(budget.limit()), labels);
  };
  add("process", *parts_.devices.memory());
  for (const auto& place : parts_.devices.all()) add(place->device.ToString(), *place->budget);
}

void Metrics::AddModels(Families& families) const {
  const auto models = parts_.models.List();
  families.AddGauge("gluond_models", "Models now.", static_cast<double>(models.size()));
  for (const auto& [name, model] : models) {
    const Families::Labels labels = {{"model", name}};
    families.AddGauge("gluond_model_bytes", "Bytes of a model's tensors.", static_cast<double>(model->tensor_bytes()), labels);
    families.AddGauge("gluond_model_queue_depth", "Tasks of a model that have begun or wait.",
                      static_cast<double>(model->model().strand().depth()), labels);
    const std::shared_ptr<Trainer> trainer = model->trainer();
    if (trainer == nullptr) continue;
    const Trainer::Progress progress = trainer->progress();
    families.AddCounter("gluond_model_steps_total", "Steps on batches since the trainer was made.",
                        static_cast<double>(progress.steps), labels);
    families.AddCounter("gluond_model_samples_total", "Samples of those batches, images for instance.",
                        static_cast<double>(progress.samples), labels);
    if (progress.steps == 0) continue;
    families.AddGauge("gluond_model_loss", "The last step's mean loss.", progress.loss, labels);
    families.AddGauge("gluond_model_gradient_norm", "The last step's norm of the gradients, 0 where none is computed.",
                      progress.gradient_norm, labels);
  }
}

void Metrics::AddVersions(Families& families) const {
  for (const auto& [name, version] : parts_.served.Ready()) {
    const Families::Labels labels = {{"model", name}, {"version", std::to_string(version->number())}};
    const auto with = [&](const char* key, const char* value) {
      Families::Labels more = labels;
      more.push_back({key, value});
      return more;
    };
    const Statistics::Counts counts = version->statistics().Read();
    families.AddGauge("gluond_inference_queue_length", "Requests that wait for an instance of a version.",
                      static_cast<double>(version->waiting()), labels);
    for (const auto& [result, times] : {std::pair("success", counts.success), std::pair("fail", counts.fail)}) {
      families.AddCounter("gluond_inference_requests_total", "Requests to a version that were answered.",
                          static_cast<double>(times.count), with("result", result));
    }
    const Statistics::Latencies& latencies = version->statistics().latencies();
    for (const auto& [phase, latency] : {std::pair("queue", &latencies.queue), std::pair("input", &latencies.input),
                                         std::pair("infer", &latencies.infer), std::pair("output", &latencies.output)}) {
      families.AddLatency("gluond_inference_phase_seconds",
                          "Answered requests by the time of a phase: the wait for an "
                          "instance, putting the batch together, computing it, and taking it apart.",
                          latency->Read(), with("phase", phase));
    }
    std::vector<Families::Bucket> buckets;
    for (int64_t bound = 1; bound <= kMostRows; bound *= 2) buckets.push_back({static_cast<double>(bound), 0});
    int64_t rest = 0;
    for (const auto& [rows, batches] : counts.by_rows) {
      const auto count = static_cast<int64_t>(batches.infer.count);
      const auto bucket = std::find_if(buckets.begin(), buckets.end(), [rows = rows](const Families::Bucket& bucket) {
        return static_cast<double>(rows) <= bucket.bound;
      });
      (bucket == buckets.end() ? rest : bucket->count) += count;
    }
    families.AddHistogram("gluond_inference_batch_size", "Batches that were computed, by their rows.", buckets, rest,
                          static_cast<double>(counts.inferences), labels);
  }
}

void Metrics::AddCallbacks(Families& families) const {
  families.AddLatency("gluond_callback_seconds", "Calls of operators that clients compute, by the time to the answer.",
                      parts_.hosts.round_trips().Read());
  families.AddGauge("gluond_callbacks_waiting", "Such calls that are not answered.", static_cast<double>(parts_.hosts.waiting()));
  AddRunning(families, "callback", parts_.hosts.longest_wait());
  families.AddGauge("gluond_callback_clients", "Clients that compute operators.", static_cast<double>(parts_.hosts.clients()));
}

void Metrics::AddStore(Families& families) const {
  if (parts_.store == nullptr) return;
  families.AddGauge("gluond_store_bytes", "Bytes in --store_dir.", static_cast<double>(parts_.store->UsedBytes()));
  families.AddGauge("gluond_store_aside_bytes", "Bytes in it of checkpoints that could not be loaded and were set aside.",
                    static_cast<double>(parts_.store->AsideBytes()));
  families.AddCounter("gluond_failed_saves_total", "Saves of models for the next process that failed.",
                      static_cast<double>(parts_.failed_saves()));
  for (const auto& [model, age] : parts_.checkpoint_ages()) {
    families.AddGauge("gluond_model_checkpoint_age_seconds",
                      "Since the moment of a model's last checkpoint for the next "
                      "process, 0 while that shows the model as it is.",
                      age, {{"model", model}});
  }
}

}  // namespace gluond::server
