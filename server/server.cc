#include "server/server.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "server/custom/operator_owners.h"
#include "server/follow/follower.h"
#include "server/group/group_part.h"
#include "server/hosted/wait_for.h"
#include "server/rpc/log.h"
#include "server/services/services.h"
#include "server/start/address.h"
#include "server/start/pulse.h"

// Newer releases of protobuf log by Abseil (server/rpc/log.h).
#if __has_include("google/protobuf/stubs/logging.h")
#include "google/protobuf/stubs/logging.h"
#define GLUOND_PROTOBUF_HAS_LOG_HANDLER
#endif

namespace gluond::server {
namespace {

// When nothing is under way any more, streams that are no work (watchers of health, hosts of operators) may have so
// long.
constexpr std::chrono::seconds kFarewell{1};
constexpr std::chrono::milliseconds kLookAgain{2};

// The libraries have these switches for the whole process only.
void SetUpLibraries() {
  static const bool once = [] {
  // A reply says, and its line in the log, how a message is malformed.
#ifdef GLUOND_PROTOBUF_HAS_LOG_HANDLER
    google::protobuf::SetLogHandler(nullptr);
#endif
    // Debian builds Abseil so that each lock of gRPC is looked up in a graph, under one lock of the whole process.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    return true;
  }();
  (void)once;
}

}  // namespace

Server::Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  RETURN_IF_ERROR(CheckRegistry());
  RETURN_IF_ERROR(CheckOptions(options));
  SetUpLibraries();
  std::unique_ptr<Server> server(new Server);
  ASSIGN_OR_RETURN(server->devices_, Devices::Open(options.devices, options.cpu_threads, options.limits, options.serve_share));
  server->runner_ = std::make_unique<Runner>(options.limits, options.log, server->devices_->memory());
  server->OpenLogs(options);
  server->ListQueues();
  ASSIGN_OR_RETURN(server->identities_, IdentityFiles::Load(options, *server->runner_));
  RETURN_IF_ERROR(server->CreateServices(options));
  ASSIGN_OR_RETURN(server->transport_, Transport::Listen(options, *server->runner_, *server->identities_, server->services_));
  RETURN_IF_ERROR(server->ShowMetrics(options));
  server->BeginSweeps(options.limits);
  server->stores_->Load();
  if (!server->serve_.empty()) {
    RETURN_IF_ERROR(WaitFor(
        [&](auto done) { server->ReloadServing([done](const absl::StatusOr<Declaration>& served) { done(served.status()); }); }));
  }
  if (!options.ready_when_core) server->stores_->WaitForLoads();
  server->stores_->Follow();
  server->runner_->calls.Open();
  server->BeginToServe();
  return server;
}

// A follower says SERVING when it has something to serve; it takes calls before.
void Server::BeginToServe() {
  if (follower_ == nullptr) return health_->SetServing();
  health_->SetNotServing(absl::StrCat("the versions that ", follower_->options().address, " publishes are not here yet"));
  follower_->Begin([this] { health_->SetServing(); });
}

void Server::OpenLogs(const ServerOptions& options) {
  if (options.audit != nullptr) runner_->audit.Open(options.audit, options.audit_health);
  if (options.access != nullptr) runner_->access.Open(options.access, options.access_every);
  for (const LogLevel level : {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    runner_->log.levels().Set(level, level >= options.log_level);
  }
}

void Server::ListQueues() {
  const auto list = [this](const std::string& name, Lanes& lanes) {
    runner_->dispatch.List(name, [&lanes] { return lanes.load(); });
    runner_->dispatch.List(name + "-beside", [&lanes] { return lanes.load_aside(); });
  };
  for (const auto& place : devices_->all()) {
    list(place->device.ToString(), *place->lanes);
    if (place->own_serving_lanes != nullptr) list("serving", *place->own_serving_lanes);
  }
}

void Server::BeginSweeps(const Limits& limits) {
  // A short lease wants a closer look.
  const std::chrono::milliseconds shortest =
      std::chrono::seconds(std::min<int64_t>({limits.session_lease_seconds, limits.callback_seconds, 4}));
  sweeper_ = std::make_unique<Sweeper>(
      "sweep", [this] { Sweep(); }, shortest / 4);
  identity_sweeper_ = identities_->Follow([this](const Gatekeeper& gatekeeper) {
    transport_->router().EndRevoked();
    sessions_->HoldUnless([&gatekeeper](Access wanted, const Identity& owner, const Reach& reach) {
      return gatekeeper.MayGoOn(wanted, owner, reach);
    });
  });
}

absl::StatusOr<std::string> Server::Check(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(IdentityFiles::Check(options));
  RETURN_IF_ERROR(Devices::Open(options.devices, options.cpu_threads, options.limits, options.serve_share).status());
  RETURN_IF_ERROR(MetricsServer::Check({options.metrics_address, options.metrics_token_file}));
  if (absl::StartsWith(options.address, "unix:")) RETURN_IF_ERROR(CheckFolderOf(options.address.substr(5), "--address"));
  RETURN_IF_ERROR(Stores::Check(options));
  if (options.serve.empty()) return "no file --serve";
  ASSIGN_OR_RETURN(const Declaration declaration, ReadServeFile(options.serve));
  if (!declaration.empty()) {
    if (!LocalFileSystem().IsDirectory(absl::StrCat(options.store_dir, "/"))) {
      return FailedPrecondition("--serve=", options.serve, " names checkpoints, and --store_dir=", options.store_dir,
                                " is no folder");
    }
    ASSIGN_OR_RETURN(const auto checkpoints, CheckpointStore::Open(LocalFileSystem(), options.store_dir));
    RETURN_IF_ERROR(CheckCheckpoints(declaration, *checkpoints));
  }
  return absl::StrCat(options.serve, ": ", Summary(declaration));
}

void Server::HangUp(std::function<void(absl::StatusOr<Declaration>)> done) {
  const auto tell = [this, done = std::move(done)](const absl::StatusOr<Declaration>& served) {
    runner_->audit.Tell({.method = "SIGHUP", .code = served.status().code(), .target = serve_.empty() ? "" : "--serve=" + serve_});
    done(served);
  };
  if (!serve_.empty()) return ReloadServing(tell);
  tell(FailedPrecondition("there is no file --serve to read again"));
}

void Server::ReloadServing(std::function<void(absl::StatusOr<Declaration>)> done) {
  stores_->publisher().Declare([path = serve_] { return ReadServeFile(path); }, stores_->checkpoints(), std::move(done));
}

void Server::SetOwners(const ServerOptions& options) {
  Owners& owners = runner_->owners;
  owners.SetStrict(options.strict_ownership);
  owners.SetExists(Thing::kModel, [this](const std::string& name) { return models_->Has(name); });
  owners.SetExists(Thing::kDataset, [this](const std::string& name) { return datasets_->Has(name); });
  owners.SetExists(Thing::kVersions, [this](const std::string& name) { return stores_->served().Has(name); });
  owners.SetExists(Thing::kSavedSession, [this](const std::string& name) { return stores_->saved_sessions().Has(name); });
  owners.SetExists(Thing::kCheckpoint, [this](const std::string& name) {
    return stores_->checkpoints() != nullptr && stores_->checkpoints()->Has(name);
  });
}

absl::Status Server::CreateServices(const ServerOptions& options) {
  const Limits& limits = options.limits;
  models_ = std::make_unique<Models>(limits.max_models, &runner_->tenants);
  datasets_ = std::make_unique<Datasets>(limits.max_datasets, &runner_->tenants);
  uploads_ =
      std::make_unique<ParameterUploads>(std::chrono::seconds(limits.upload_lease_seconds), limits.max_uploads, &runner_->tenants);
  hosts_ = std::make_unique<HostStreams>(limits);
  devices_->SetCustomHost(hosts_->hosts(),
                          [hosts = hosts_->hosts()](absl::string_view tenant) { return HostsOf(hosts, std::string(tenant)); });
  ASSIGN_OR_RETURN(stores_, Stores::Open(options, *runner_, *devices_, *models_, *datasets_));
  SetOwners(options);
  const SessionProgram::Shared shared = {*devices_, *models_, stores_->saved_sessions()};
  sessions_ = std::make_unique<Sessions>(shared, limits, options.session_program, runner_->audit, runner_->log, runner_->owners);
  if (options.shared_memory) regions_ = std::make_unique<SharedRegions>();
  infer_streams_ = std::make_unique<InferStreams>(*runner_, stores_->served(), regions_.get());
  const auto count_models = [this](const Reach& reach) {
    const auto models = models_->List();
    return std::count_if(models.begin(), models.end(), [&reach](const auto& each) { return reach.Has(each.first); });
  };
  serve_ = options.serve;
  ServingReload reload;
  if (!serve_.empty()) reload = [this](auto done) { ReloadServing(std::move(done)); };
  ASSIGN_OR_RETURN(group_, TakePart(options.group, options.address, options.tls.any(), *runner_, *devices_, *models_));
  CheckpointStore* const checkpoints = stores_->checkpoints();
  services_.push_back(NewServerService(*runner_, *devices_, checkpoints != nullptr, count_models));
  services_.push_back(NewOperatorService(*runner_, *devices_, *hosts_));
  services_.push_back(NewModelService(*runner_, *devices_, *models_, *uploads_, stores_->served(), checkpoints, stores_->live()));
  services_.push_back(NewTrainingService(*runner_, *devices_, *models_, *datasets_, stores_->datasets(), group_->leads.get()));
  services_.push_back(NewGroupService(*runner_, group_->leads.get(), *group_->streams));
  services_.push_back(NewSessionService(*runner_, *sessions_, stores_->saved_sessions()));
  services_.push_back(NewServingService(*runner_, *devices_, *models_, stores_->publisher(), checkpoints, reload));
  services_.push_back(NewInferenceService(*runner_, stores_->publisher(), *infer_streams_, regions_.get()));
  auto health = std::make_unique<HealthService>(*runner_, stores_->served(), options.health_names == OpenNames::kForCallers);
  health_ = health.get();
  services_.push_back(std::move(health));
  const auto names = [this] {
    std::vector<std::string> names;
    for (const auto& service : services_) names.push_back(service->name());
    return names;
  };
  services_.push_back(NewReflectionService(*runner_, ReflectionVersion::kV1, names));
  services_.push_back(NewReflectionService(*runner_, ReflectionVersion::kV1Alpha, names));
  for (const auto& service : services_) {
    RETURN_IF_ERROR(service->CheckComplete());
    health_->AddService(service->name());
  }
  for (const Place* place : devices_->offered()) health_->AddService(place->device.ToString());
  on_device_error_ = options.on_device_error;
  if (!options.follow.address.empty()) {
    follower_ = std::make_unique<Follower>(options.follow, *runner_, *devices_, stores_->publisher(), options.log);
  }
  return absl::OkStatus();
}

// Health tells of each device by its name. Clients that name none are on the first one, which stands for the server.
void Server::LookAtDevices() {
  for (const Place* place : devices_->offered()) {
    const std::string name = place->device.ToString();
    const absl::Status health = Annotate(place->lanes->driver().health(), name);
    if (health.ok() || !failed_devices_.insert(name).second) continue;
    health_->SetBroken(name);
    if (place == devices_->offered().front()) health_->SetBroken("");
    if (on_device_error_ != nullptr) on_device_error_(health);
  }
}

void Server::Sweep() {
  LookAtDevices();
  runner_->dispatch.Probe();
  runner_->peers.Sweep();
  transport_->router().CancelLate();
  models_->RemoveIf([](const HostedModel& model) { return model.Expired(); });
  uploads_->Expire();
  sessions_->Sweep();
  hosts_->Sweep();
  for (const auto& service : services_) service->Sweep();
  runner_->log.Sweep();
  runner_->audit.Sweep();
  FollowMovedLogs();
  runner_->sequences.SilenceOlderThan(Sequences::kSilence, [this](const std::string& model) { return models_->Find(model).ok(); });
  runner_->sequences.DropAnswersOlderThan(std::chrono::seconds(runner_->limits.answer_lease_seconds));
  const std::chrono::seconds lease(runner_->limits.upload_lease_seconds);
  datasets_->RemoveIf([lease](const HostedDataset& dataset) { return dataset.Silent(lease); });
  for (const auto& [name, model] : models_->List()) model->ForgetSilentDownload(lease);
}

absl::Status Server::ShowMetrics(const ServerOptions& options) {
  if (options.metrics_address.empty()) return absl::OkStatus();
  metrics_ = std::make_unique<Metrics>(Metrics::Parts{
      .runner = *runner_,
      .services = services_,
      .router = transport_->router(),
      .listener = transport_->listener(),
      .tls = identities_->tls(),
      .devices = *devices_,
      .models = *models_,
      .served = stores_->served(),
      .hosts = *hosts_->hosts(),
      .store = stores_->checkpoints(),
      .follower = follower_.get(),
      .group = group_->leads.get(),
      .sessions = [this] { return sessions_->size(); },
      .datasets = [this] { return static_cast<int64_t>(datasets_->size()); },
      .failed_saves = [this] { return stores_->live() == nullptr ? 0 : stores_->live()->failures(); },
      .checkpoint_ages =
          [this] { return stores_->live() == nullptr ? std::map<std::string, double>() : stores_->live()->Ages(); }});
  ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start({options.metrics_address, options.metrics_token_file},
                                                         {.metrics = [this] { return metrics_->Look(); },
                                                          .what_hangs = [this] { return WhatHangs(); },
                                                          .why_not_ready = [this] { return health_->WhyNotServing(); }}));
  return absl::OkStatus();
}

// The log has a line when a loop begins to hang, however often probes ask.
std::string Server::WhatHangs() {
  std::string what = Pulse::WhatHangs();
  if (hangs_.exchange(!what.empty()) == what.empty()) {
    LogEvent(what.empty() ? "loops_go_on" : "loop_hangs", what.empty() ? LogLevel::kInfo : LogLevel::kError,
             what.empty() ? "all loops go round again" : what);
  }
  return what;
}

int64_t Server::UnderWay() const { return runner_->calls.count() + sessions_->streams().size() + infer_streams_->size(); }

int64_t Server::Drain(std::chrono::nanoseconds grace, std::chrono::nanoseconds lame_duck) {
  using Clock = std::chrono::steady_clock;
  if (follower_ != nullptr) follower_->Leave();
  health_->SetNotServing("the server is stopping");
  std::this_thread::sleep_for(lame_duck);
  const auto time = std::chrono::duration_cast<Clock::duration>(grace);
  const Clock::time_point end = Clock::now() + time;
  if (group_->joins != nullptr) group_->joins->Leave(time / 2);
  transport_->StopListening();
  runner_->calls.Drain();
  sessions_->Drain();
  infer_streams_->Drain();
  stores_->publisher().Hurry();
  const auto wait = [](Clock::time_point until, auto waits_for) {
    while (waits_for() && Clock::now() < until) std::this_thread::sleep_for(kLookAgain);
  };
  LiveModels* const live = time.count() > 0 ? stores_->live() : nullptr;
  wait(end - time / 4, [this] { return UnderWay() > 0; });
  if (live != nullptr) live->SaveAll();
  wait(end, [this] { return UnderWay() > 0; });
  if (live != nullptr) {
    wait(end, [live] { return live->busy(); });
    live->SaveAll();  // The models whose calls ended since.
    wait(end, [live] { return live->busy(); });
  }
  const int64_t cut = UnderWay();
  hosts_->Drain();
  if (group_->leads != nullptr) group_->leads->Stop();
  for (const auto& join : group_->streams->Drain()) join->End(Draining());
  transport_->Shutdown(cut == 0 ? kFarewell : std::chrono::seconds(0));
  sessions_->End();
  if (follower_ != nullptr) follower_->End();
  const int64_t unsaved = stores_->Stop();
  unsaved_ = time.count() > 0 ? unsaved : 0;
  runner_->log.Sweep(LogLimit::kAll);
  runner_->audit.Sweep(LogLimit::kAll);
  return cut;
}

Server::~Server() {
  if (transport_ != nullptr) Drain(std::chrono::seconds(0));
}

}  // namespace gluond::server
