#include "server/sight/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "bazel/commit.h"
#include "server/codec/duration.h"
#include "server/follow/follower.h"
#include "server/group/group.h"
#include "server/hosted/wait_for.h"
#include "server/rpc/call_counts.h"
#include "server/rpc/log.h"
#include "server/sight/families.h"
#include "server/start/protocol.h"
#include "server/start/pulse.h"

namespace gluond::server {
namespace {

// The last bound of the histogram of batches.
constexpr int64_t kMostRows = 1024;

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }
double Seconds(const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; }

// The names that Prometheus's own clients give these.
void AddProcess(std::chrono::system_clock::time_point begun, Families& families) {
  families.AddGauge("gluond_build_info", "1, labelled with the release and the commit it was built from.", 1,
                    {{"version", kVersion}, {"commit", Commit()}});
  families.AddGauge("process_start_time_seconds", "When the server started, since 1970.", Seconds(begun.time_since_epoch()));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  families.AddCounter("process_cpu_seconds_total", "Processor time.", Seconds(used.ru_utime) + Seconds(used.ru_stime));
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  families.AddGauge("process_resident_memory_bytes", "Memory of the process, by the kernel.", resident * sysconf(_SC_PAGESIZE));
  std::error_code error;
  const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd", error), {});
  families.AddGauge("process_open_fds", "File descriptors.", open);
}

// Calls `add` with each method's path and counts, and with those of calls of no method.
template <class Add>
void ForMethods(const Metrics::Parts& parts, Add add) {
  for (const auto& service : parts.services) {
    for (const auto& row : service->rows()) add(row->method.path, *row->counts);
  }
  add("unknown", parts.router.unknown());
}

// A rate wants a series before its first failure, so there is one for each code from the start.
template <class Faults>
void AddFaults(Families& families, const std::string& kind, Faults faults) {
  for (size_t i = 0; i < CallCounts::kCodes; ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (LevelOf(code, /*reason=*/"") != LogLevel::kError) continue;
    families.AddCounter("gluond_server_faults_total",
                        "Calls, and commands of sessions, that failed by no doing of their callers, by code.", faults(code),
                        {{"kind", kind}, {"code", absl::StatusCodeToString(code)}});
  }
}

// The server, and no caller, makes the names of methods and tenants, which bounds the number of series. The calls of each
// tenant are apart. A caller of no tenant has no label for the tenant, which to Prometheus is an empty label.
void AddEndedCalls(const Metrics::Parts& parts, Families& families) {
  const auto add = [&families](const std::string& method, absl::StatusCode code, int64_t ended, const std::string& tenant) {
    Families::Labels labels = {{"method", method}, {"code", absl::StatusCodeToString(code)}};
    if (!tenant.empty()) labels.push_back({"tenant", tenant});
    families.AddCounter("gluond_requests_total", "Calls that have ended, by method, code and the caller's tenant.", ended,
                        std::move(labels));
  };
  std::array<int64_t, CallCounts::kCodes> faults{};
  ForMethods(parts, [&](const std::string& method, const CallCounts& counts) {
    for (size_t i = 0; i < CallCounts::kCodes; ++i) {
      const auto code = static_cast<absl::StatusCode>(i);
      const int64_t ended = counts.ended(code);
      if (ended > 0 || code == absl::StatusCode::kOk) add(method, code, ended, "");
      faults[i] += counts.servers_faults(code);
    }
  });
  for (const TenantPtr& tenant : parts.runner.tenants.List()) {
    for (const auto& [call, ended] : tenant->ended()) add(call.first, call.second, ended, tenant->name());
  }
  AddFaults(families, "call", [&](absl::StatusCode code) { return faults[static_cast<size_t>(code)]; });
  const CallCounts& commands = parts.runner.log.commands();
  AddFaults(families, "session_command", [&](absl::StatusCode code) { return commands.servers_faults(code); });
}

void AddCalls(const Metrics::Parts& parts, Families& families) {
  ForMethods(parts, [&](const std::string& method, const CallCounts& counts) {
    const Latency::Counts times = counts.latency().Read();
    // Hundreds of lines would tell of methods that nobody calls.
    if (absl::c_all_of(times.buckets, [](int64_t bucket) { return bucket == 0; })) return;
    families.AddLatency("gluond_request_seconds", "Calls by their time, from the headers to the last word. A stream is one.", times,
                        {{"method", method}});
  });
  families.AddGauge("gluond_requests_in_flight", "Requests at work or waiting.", parts.runner.requests.held());
  families.AddGauge("gluond_request_bytes_in_flight", "Bytes of requests at work or waiting.", parts.runner.request_bytes.held());
  for (const auto& [limit, count] : parts.runner.log.Refusals()) {
    families.AddCounter("gluond_refusals_total", "Calls and commands of sessions that a limit has refused, by its flag.", count,
                        {{"limit", limit}});
  }
  for (const auto& [phase, latency] : {std::pair("queue", &parts.runner.queued), std::pair("compute", &parts.runner.computed),
                                       std::pair("callbacks", &parts.runner.called_back)}) {
    families.AddLatency(
        "gluond_phase_seconds",
        "Parts of training calls by the time of a phase: the wait for model and lane, the computation, and the wait for clients' "
        "operators within it.",
        latency->Read(), {{"phase", phase}});
  }
  for (const auto& [log, lines] : CountDroppedLines()) {
    families.AddCounter("gluond_log_lines_dropped_total", "Lines of a log that nobody took in time, or that could not be written.",
                        lines, {{"log", log}});
  }
  families.AddGauge("gluond_sessions", "Sessions now.", parts.sessions());
  families.AddGauge("gluond_datasets", "Datasets now.", parts.datasets());
}

void AddCertificates(const Metrics::Parts& parts, Families& families) {
  if (parts.tls == nullptr) return;
  for (const auto& [flag, end] : parts.tls->Ends()) {
    families.AddGauge("gluond_certificate_expiry_timestamp_seconds",
                      "The moment, in seconds since 1970, at which the first of a flag's certificates is over.",
                      absl::ToUnixSeconds(end), {{"flag", flag}});
  }
}

void AddConnections(const Metrics::Parts& parts, Families& families) {
  const Listener* const listener = parts.listener;
  if (listener == nullptr) return;
  families.AddGauge("gluond_connections", "Connections now.", listener->connections());
  families.AddCounter("gluond_connections_accepted_total", "Connections that have come.", listener->accepted());
  families.AddCounter("gluond_connections_dropped_total", "Connections closed to make room for others.", listener->dropped());
  for (size_t i = 0; i < kEndings; ++i) {
    const auto ending = static_cast<Ending>(i);
    families.AddCounter("gluond_connections_ended_total", "Connections that the server has ended, by its reason.",
                        listener->ended(ending), {{"reason", std::string(NameOf(ending))}});
  }
}

void AddRunning(Families& families, const std::string& kind, std::chrono::nanoseconds time) {
  families.AddGauge(
      "gluond_longest_running_seconds",
      "So long the oldest work under way has gone on, by what does it: a queue's threads, or clients that compute an operator.",
      Seconds(time), {{"kind", kind}});
}

void AddQueues(const Metrics::Parts& parts, Families& families) {
  for (const auto& [name, load] : parts.runner.dispatch.queues()) {
    const Families::Labels labels = {{"queue", name}};
    families.AddGauge("gluond_dispatch_queue_length", "Works that wait for a thread.", load.waiting, labels);
    families.AddCounter("gluond_dispatch_works_total", "Works that a thread has taken.", load.taken, labels);
    families.AddCounter("gluond_dispatch_wait_seconds_total", "Their wait in all.", Seconds(load.waited), labels);
    families.AddGauge("gluond_dispatch_longest_wait_seconds", "The longest of these waits.", Seconds(load.longest), labels);
    families.AddCounter("gluond_dispatch_busy_seconds_total",
                        "The time for which works have held threads. Its rate is the number of threads at work.",
                        Seconds(load.worked), labels);
    AddRunning(families, name, load.longest_work);
  }
}

void AddLoops(const Metrics::Parts&, Families& families) {
  for (const auto& [loop, silent] : Pulse::All()) {
    families.AddGauge("gluond_loop_silent_seconds",
                      "The time since a loop of the server's own has gone round. It hangs where that is more than 30.",
                      Seconds(silent), {{"loop", loop}});
  }
}

void AddMemory(const Metrics::Parts& parts, Families& families) {
  const auto add = [&](const std::string& owner, const Budget& budget) {
    const Families::Labels labels = {{"owner", owner}};
    families.AddGauge("gluond_memory_bytes", "Bytes charged to a budget.", budget.used(), labels);
    families.AddGauge("gluond_memory_peak_bytes", "The most that were charged at once.", budget.peak(), labels);
    families.AddGauge("gluond_memory_limit_bytes", "The budget's limit.", budget.limit(), labels);
  };
  add("process", *parts.devices.memory());
  for (const auto& place : parts.devices.all()) add(place->device.ToString(), *place->budget);
}

void AddModels(const Metrics::Parts& parts, Families& families) {
  const auto models = parts.models.List();
  families.AddGauge("gluond_models", "Models now.", models.size());
  for (const auto& [name, model] : models) {
    const Families::Labels labels = {{"model", name}};
    families.AddGauge("gluond_model_bytes", "Bytes of a model's tensors.", model->tensor_bytes(), labels);
    families.AddGauge("gluond_model_queue_depth", "Tasks of a model that have begun or wait.", model->model().strand().depth(),
                      labels);
    const std::shared_ptr<Trainer> trainer = model->trainer();
    if (trainer == nullptr) continue;
    const Trainer::Progress progress = trainer->progress();
    families.AddCounter("gluond_model_steps_total", "Steps on batches since the trainer was made.", progress.steps, labels);
    families.AddCounter("gluond_model_samples_total", "Samples of those batches, images for instance.", progress.samples, labels);
    if (progress.steps == 0) continue;
    families.AddGauge("gluond_model_loss", "The last step's mean loss.", progress.loss, labels);
    families.AddGauge("gluond_model_gradient_norm", "The last step's norm of the gradients, 0 where none is computed.",
                      progress.gradient_norm, labels);
  }
}

void AddVersions(const Metrics::Parts& parts, Families& families) {
  for (const auto& [name, version] : parts.served.Ready()) {
    const Families::Labels labels = {{"model", name}, {"version", std::to_string(version->number())}};
    const auto with = [&](const char* key, const char* value) {
      Families::Labels more = labels;
      more.push_back({key, value});
      return more;
    };
    const Statistics::Counts counts = version->statistics().Read();
    families.AddGauge("gluond_inference_queue_length", "Requests that wait for an instance of a version.", version->waiting(),
                      labels);
    for (const auto& [result, times] : {std::pair("success", counts.success), std::pair("fail", counts.fail)}) {
      families.AddCounter("gluond_inference_requests_total", "Requests to a version that were answered.", times.count,
                          with("result", result));
    }
    const Statistics::Latencies& latencies = version->statistics().latencies();
    for (const auto& [phase, latency] : {std::pair("queue", &latencies.queue), std::pair("input", &latencies.input),
                                         std::pair("infer", &latencies.infer), std::pair("output", &latencies.output)}) {
      families.AddLatency(
          "gluond_inference_phase_seconds",
          "Answered requests by the time of a phase: the wait for an instance, putting the batch together, computing it, and "
          "taking it apart.",
          latency->Read(), with("phase", phase));
    }
    std::vector<Families::Bucket> buckets;
    for (int64_t bound = 1; bound <= kMostRows; bound *= 2) buckets.push_back({static_cast<double>(bound), 0});
    int64_t rest = 0;
    for (const auto& [rows, batches] : counts.by_rows) {
      const auto bucket = absl::c_find_if(buckets, [rows = rows](const Families::Bucket& each) { return rows <= each.bound; });
      (bucket == buckets.end() ? rest : bucket->count) += batches.infer.count;
    }
    families.AddHistogram("gluond_inference_batch_size", "Batches that were computed, by their rows.", buckets, rest,
                          counts.inferences, labels);
  }
}

void AddCallbacks(const Metrics::Parts& parts, Families& families) {
  const CustomHosts::Load load = parts.hosts.load();
  families.AddLatency("gluond_callback_seconds", "Calls of operators that clients compute, by the time to the answer.",
                      parts.hosts.round_trips().Read());
  families.AddGauge("gluond_callbacks_waiting", "Such calls that are not answered.", load.waiting);
  AddRunning(families, "callback", load.longest_wait);
  families.AddGauge("gluond_callback_clients", "Clients that compute operators.", load.clients);
}

void AddStore(const Metrics::Parts& parts, Families& families) {
  if (parts.store == nullptr) return;
  families.AddGauge("gluond_store_bytes", "Bytes in --store_dir.", parts.store->UsedBytes());
  families.AddGauge("gluond_store_aside_bytes", "Bytes in it of checkpoints that could not be loaded and were set aside.",
                    parts.store->AsideBytes());
  families.AddCounter("gluond_failed_saves_total", "Saves of models for the next process that failed.", parts.failed_saves());
  for (const auto& [model, age] : parts.checkpoint_ages()) {
    families.AddGauge("gluond_model_checkpoint_age_seconds",
                      "Since the moment of a model's last checkpoint for the next process, 0 while that shows the model as it is.",
                      age, {{"model", model}});
  }
}

void AddFollower(const Metrics::Parts& parts, Families& families) {
  if (parts.follower == nullptr) return;
  families.AddGauge("gluond_follow_versions_behind",
                    "Versions that the leader (--follow) publishes and this server does not serve.", parts.follower->behind());
  families.AddGauge("gluond_follow_silent_seconds", "Since the leader's last word, which comes every few seconds.",
                    Seconds(parts.follower->silent()));
  families.AddCounter("gluond_follow_failures_total", "Versions and routes of the leader's that could not be taken over, each try.",
                      parts.follower->failures());
}

void AddGroup(const Metrics::Parts& parts, Families& families) {
  if (parts.group == nullptr) return;
  v1::GetGroupResponse group;
  (void)WaitFor([&](auto done) {
    parts.group->Describe([&group, done](v1::GetGroupResponse described) {
      group = std::move(described);
      done(absl::OkStatus());
    });
  });
  std::map<int, int64_t> places;
  for (const v1::GroupMember& member : group.members()) ++places[member.place()];
  for (const auto place : {v1::GroupMember::PREPARING, v1::GroupMember::WAITING, v1::GroupMember::RANK, v1::GroupMember::SPARE}) {
    families.AddGauge("gluond_group_processes", "Processes of the group, the leader among them, by what they do.", places[place],
                      {{"place", absl::AsciiStrToLower(v1::GroupMember::Place_Name(place))}});
  }
  families.AddGauge("gluond_group_least_processes", "Processes without which no step runs (--group_size).", group.min());
  families.AddCounter("gluond_group_generations_total", "Rings that have begun to form.", static_cast<double>(group.generation()));
  families.AddCounter("gluond_group_steps_total", "Steps that the group has applied.", static_cast<double>(group.steps()));
  families.AddGauge("gluond_group_pause_seconds", "The time without steps before the last ring.",
                    Seconds(FromProto(group.pause())));
  for (const v1::GroupMember& member : group.members()) {
    families.AddGauge("gluond_group_waited_seconds",
                      "Time of a step that a process has waited for others: the slowest waits least.",
                      Seconds(FromProto(member.waited())), {{"member", absl::StrCat(member.member())}, {"name", member.name()}});
  }
}

}  // namespace

std::string Metrics::Look() const {
  Families families;
  AddProcess(begun_, families);
  for (const auto add : {&AddCalls, &AddEndedCalls, &AddConnections, &AddCertificates, &AddQueues, &AddLoops, &AddMemory,
                         &AddModels, &AddVersions, &AddCallbacks, &AddStore, &AddFollower, &AddGroup}) {
    add(parts_, families);
  }
  return families.ToText();
}

}  // namespace gluond::server
