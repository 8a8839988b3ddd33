#include "server/server.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "server/custom/tenant_hosts.h"
#include "server/hosted/wait_for.h"
#include "server/net/watched_credentials.h"
#include "server/services/inference_service.h"
#include "server/services/model_service.h"
#include "server/services/operator_service.h"
#include "server/services/reflection_service.h"
#include "server/services/server_service.h"
#include "server/services/serving_service.h"
#include "server/services/session_service.h"
#include "server/services/training_service.h"
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

// Live checkpoints, datasets, saved sessions and published versions, in the store's directory. A look at the models costs
// less than 0.1 ms.
constexpr char kLive[] = ".live";
constexpr char kDatasets[] = ".datasets";
constexpr char kSessions[] = ".sessions";
constexpr char kVersions[] = ".versions";
constexpr char kOwners[] = ".owners";
constexpr std::chrono::milliseconds kLiveLook{50};

constexpr int kMostComputeThreads = 1024;
constexpr int kPollThreads = 32;
constexpr int kAcceptThreads = 32;
constexpr int kReadBytes = 16 << 10;
constexpr int kHandshakeMilliseconds = 20'000;

// The number of calls that one connection may have open. All connections' calls take a part of the process's memory at
// most.
int StreamsOfConnection(const Limits& limits, const Budget& memory) {
  constexpr int64_t kPart = 8, kStreamBytes = 16 << 10, kFew = 16, kMany = 256;
  return static_cast<int>(std::clamp(memory.limit() / kPart / kStreamBytes / limits.max_connections, kFew, kMany));
}

// Bytes that gRPC has received and given to nobody may be so many: a part of the process's memory, or two large
// messages.
int64_t MostUnread(const Limits& limits, const Budget& memory) {
  constexpr int64_t kPart = 4;
  return std::max(memory.limit() / kPart, 2 * limits.max_message_bytes);
}
constexpr std::chrono::milliseconds kUnreadLook{50};
// A change is found within so long, and counts a second later (WatchedFile).
constexpr std::chrono::milliseconds kIdentityLook{500};

// Options that are wrong on any machine, with any files.
absl::Status CheckOptions(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckLimits(options.limits));
  RETURN_IF_ERROR(CheckConnectionLife(options.connections));
  if (options.cpu_threads < 0 || options.cpu_threads > kMostComputeThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cpu_threads is ", options.cpu_threads, "; want 0 to ", kMostComputeThreads));
  }
  if (options.serve_share < 1 || options.serve_share > 99) {
    return absl::InvalidArgumentError(
        absl::StrCat("--serve_share is ", options.serve_share, "; want percents, 1 to 99"));
  }
  if (options.access_every < 1) {
    return absl::InvalidArgumentError(absl::StrCat("--access_log_every is ", options.access_every, "; want 1 or more"));
  }
  if (options.store_dir.empty() && options.checkpoint_every.any()) {
    return absl::InvalidArgumentError("--checkpoint_every needs a place for the checkpoints; set --store_dir=FOLDER");
  }
  const bool asks = !options.identities.empty() || !options.jwt.keys.empty() || !options.tls.client_authority.empty();
  if (options.strict_ownership && !asks) {
    return absl::InvalidArgumentError("--ownership=strict needs to know who calls; set --identities=FILE or --jwt_keys=FILE, or "
                                      "leave it `shared`");
  }
  return absl::OkStatus();
}

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

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  RETURN_IF_ERROR(CheckRegistry());
  RETURN_IF_ERROR(CheckOptions(options));
  SetUpLibraries();
  std::unique_ptr<Server> server(new Server);
  ASSIGN_OR_RETURN(server->devices_, Devices::Open(options.devices, options.cpu_threads, options.limits,
                                                       options.serve_share));
  server->runner_ = std::make_unique<Runner>(options.limits, options.log, server->devices_->memory());
  for (const auto& place : server->devices_->all()) {
    const std::string name = place->device.ToString();
    server->runner_->dispatch.List(name, [lanes = place->lanes.get()] { return lanes->load(); });
    server->runner_->dispatch.List(name + "-beside", [lanes = place->lanes.get()] { return lanes->load_aside(); });
    if (place->own_serving_lanes == nullptr) continue;
    server->runner_->dispatch.List("serving", [lanes = place->own_serving_lanes.get()] { return lanes->load(); });
    server->runner_->dispatch.List("serving-beside", [lanes = place->own_serving_lanes.get()] {
      return lanes->load_aside();
    });
  }
  RETURN_IF_ERROR(server->CreateGatekeeper(options));
  RETURN_IF_ERROR(server->CreateServices(options));
  RETURN_IF_ERROR(server->Listen(options));
  RETURN_IF_ERROR(server->ShowMetrics(options));
  server->BeginLoading();
  if (!server->serve_.empty()) {
    RETURN_IF_ERROR(WaitFor([&](auto done) {
      server->ReloadServing([done](const absl::StatusOr<Declaration>& served) { done(served.status()); });
    }));
  }
  if (!options.ready_when_core) server->loads_->Wait();
  if (LiveModels* const live = server->live_.get(); live != nullptr) {
    server->live_sweeper_ = std::make_unique<Sweeper>("live-models", [live] { live->Look(); }, kLiveLook);
  }
  server->runner_->calls.Open();
  server->health_->SetServing();
  return server;
}

void Server::BeginLoading() {
  loads_ = std::make_unique<Loads>(*runner_, std::max(2, devices_->host().lanes->compute_threads()));
  runner_->check_loaded = [this](const std::string& model) { return models_->CheckLoaded(model); };
  if (stored_owners_ != nullptr) stored_owners_->Load();  // Before the things that are somebody's.
  if (stored_datasets_ != nullptr) stored_datasets_->Load(*loads_);
  saved_sessions_->Load();
  served_->Load(*loads_);
  if (live_ != nullptr) live_->Load(*loads_);
}

absl::StatusOr<std::unique_ptr<Gatekeeper>> Server::NewGatekeeper(const ServerOptions& options,
                                                                 Tenants& tenants) {
  std::unique_ptr<Identities> identities;
  std::unique_ptr<Jwt> jwt;
  if (!options.identities.empty()) {
    ASSIGN_OR_RETURN(identities, Identities::Load(options.identities));
  }
  if (!options.jwt.keys.empty()) {
    ASSIGN_OR_RETURN(jwt, Jwt::Load(options.jwt));
  }
  if (!options.tenants.empty() && identities == nullptr && jwt == nullptr) {
    return absl::InvalidArgumentError("--tenants needs the callers that belong to them; set --identities=FILE or --jwt_keys=FILE");
  }
  if (!options.tenants.empty() && options.shared_memory) {
    return absl::InvalidArgumentError("--tenants and --shared_memory exclude each other: regions of memory are not told apart by "
                                      "tenants; leave one of them out");
  }
  if (!options.tenants.empty()) RETURN_IF_ERROR(tenants.Load(options.tenants));
  if (identities == nullptr && jwt == nullptr && options.tls.client_authority.empty()) {
    const bool asks_on_unix = options.unix_identity == UnixIdentity::kNone;
    if (!asks_on_unix && options.health_names == OpenNames::kForAll) return nullptr;
    return absl::InvalidArgumentError(absl::StrCat(asks_on_unix ? "--unix_identity=none" : "--health_names=closed", " needs callers "
                                                   "whom the server knows; set --identities=FILE or --jwt_keys=FILE"));
  }
  const bool has_names = identities != nullptr || jwt != nullptr;
  const UnixIdentity on_unix = options.unix_identity.value_or(has_names ? UnixIdentity::kNone : UnixIdentity::kLocal);
  return std::make_unique<Gatekeeper>(std::move(identities), std::move(jwt), tenants, on_unix, options.health_names);
}

absl::Status Server::CreateGatekeeper(const ServerOptions& options) {
  if (options.audit != nullptr) runner_->audit.Open(options.audit, options.audit_health);
  if (options.access != nullptr) runner_->access.Open(options.access, options.access_every);
  for (const LogLevel level : {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    runner_->log.levels().Set(level, level >= options.log_level);
  }
  if (options.tls.any()) {
    ASSIGN_OR_RETURN(tls_, TlsCertificates::Load(options.tls));
  }
  ASSIGN_OR_RETURN(gatekeeper_, NewGatekeeper(options, runner_->tenants));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Server::Check(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.tls.any()) RETURN_IF_ERROR(TlsCertificates::Load(options.tls).status());
  Tenants tenants;
  RETURN_IF_ERROR(NewGatekeeper(options, tenants).status());
  RETURN_IF_ERROR(Devices::Open(options.devices, options.cpu_threads, options.limits, options.serve_share).status());
  RETURN_IF_ERROR(MetricsServer::Check({options.metrics_address, options.metrics_token_file}));
  if (absl::StartsWith(options.address, "unix:")) RETURN_IF_ERROR(CheckFolderOf(options.address.substr(5), "--address"));
  const std::string store = absl::StrCat(options.store_dir, "/");
  if (!options.store_dir.empty() && !LocalFileSystem().IsDirectory(store)) {
    std::error_code error;
    if (std::filesystem::exists(options.store_dir, error)) {
      return absl::FailedPreconditionError(absl::StrCat("--store_dir=", options.store_dir, " is no folder"));
    }
    RETURN_IF_ERROR(CheckFolderOf(options.store_dir, "--store_dir"));
  }
  if (options.serve.empty()) return "no file --serve";
  ASSIGN_OR_RETURN(const Declaration declaration, ReadServeFile(options.serve));
  if (!declaration.empty()) {
    if (!LocalFileSystem().IsDirectory(store)) {
      return absl::FailedPreconditionError(absl::StrCat("--serve=", options.serve, " names checkpoints, and --store_dir=",
                                                        options.store_dir, " is no folder"));
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
  tell(absl::FailedPreconditionError("there is no file --serve to read again"));
}

void Server::ReloadServing(std::function<void(absl::StatusOr<Declaration>)> done) {
  served_->Declare([path = serve_] { return ReadServeFile(path); }, store_.get(), std::move(done));
}

absl::Status Server::OpenStore(const ServerOptions& options) {
  const auto keep = [&](std::unique_ptr<CheckpointStore> sessions, std::unique_ptr<CheckpointStore> versions) {
    served_ = std::make_unique<ServedModels>(*runner_, *devices_, std::move(versions), options.log);
    const int64_t bytes = options.limits.max_named_session_bytes;
    saved_sessions_ = std::make_unique<SavedSessions>(
        *runner_, std::move(sessions), bytes > 0 ? bytes : devices_->memory()->limit() / 4, options.log);
  };
  if (options.store_dir.empty()) {
    keep(nullptr, nullptr);
    return absl::OkStatus();
  }
  if (const absl::Status made = LocalFileSystem().MakeDirectory(absl::StrCat(options.store_dir, "/")); !made.ok()) {
    return Annotate(made, absl::StrCat("--store_dir=", options.store_dir));
  }
  ASSIGN_OR_RETURN(store_claim_, StoreClaim::Take(options.store_dir));
  ASSIGN_OR_RETURN(store_, CheckpointStore::Open(LocalFileSystem(), options.store_dir, CheckpointStore::kDefaultMaxBytes,
                                                 {.max_store_bytes = options.limits.max_store_bytes,
                                                  .max_checkpoints = options.limits.max_checkpoints,
                                                  .has_tenants = runner_->tenants.any(),
                                                  .keep_reserve = true,
                                                  .tenant_bytes = [this](absl::string_view name) {
                                                    const TenantPtr tenant = runner_->tenants.Find(name);
                                                    return tenant == nullptr ? 0 : tenant->quotas().store_bytes;
                                                  }}));
  const bool is_new = !LocalFileSystem().IsDirectory(absl::StrCat(options.store_dir, "/", kLive));
  const auto tell = [&](const CheckpointStore& store) {
    for (const absl::Status& fault : store.faults()) options.log(EventLine("store_damaged", LogLevel::kError, fault.message()));
  };
  const auto open = [&](absl::string_view folder) {
    std::unique_ptr<CheckpointStore> store = store_->OpenApart(folder);
    tell(*store);
    return store;
  };
  tell(*store_);
  std::unique_ptr<CheckpointStore> live = open(kLive);
  if (!is_new || !live->faults().empty()) runner_->sequences.ExpectRewound();
  live_ = std::make_unique<LiveModels>(*runner_, *devices_, *models_, std::move(live), options.checkpoint_every, options.log);
  stored_datasets_ =
      std::make_unique<StoredDatasets>(*runner_, *devices_, *datasets_, open(kDatasets), options.log);
  stored_owners_ = std::make_unique<StoredOwners>(*runner_, open(kOwners), options.log);
  std::unique_ptr<CheckpointStore> sessions = open(kSessions);
  keep(std::move(sessions), open(kVersions));
  runner_->tells_durable = options.checkpoint_every.any();
  return absl::OkStatus();
}

void Server::SetOwners(const ServerOptions& options) {
  Owners& owners = runner_->owners;
  owners.SetStrict(options.strict_ownership);
  owners.SetExists(Thing::kModel, [this](const std::string& name) { return models_->Has(name); });
  owners.SetExists(Thing::kDataset, [this](const std::string& name) { return datasets_->Has(name); });
  owners.SetExists(Thing::kVersions, [this](const std::string& name) { return served_->Has(name); });
  owners.SetExists(Thing::kSavedSession, [this](const std::string& name) { return saved_sessions_->Has(name); });
  owners.SetExists(Thing::kCheckpoint, [this](const std::string& name) {
    return store_ != nullptr && store_->Has(name);
  });
}

absl::Status Server::CreateServices(const ServerOptions& options) {
  const Limits& limits = options.limits;
  models_ = std::make_unique<Models>(limits.max_models, &runner_->tenants);
  datasets_ = std::make_unique<Datasets>(limits.max_datasets, &runner_->tenants);
  uploads_ = std::make_unique<ParameterUploads>(std::chrono::seconds(limits.upload_lease_seconds), limits.max_uploads,
                                                &runner_->tenants);
  hosts_ = std::make_unique<HostStreams>(limits);
  devices_->SetCustomHost(hosts_->hosts(), [hosts = hosts_->hosts()](absl::string_view tenant) {
    return std::make_shared<TenantHosts>(hosts, std::string(tenant));
  });
  RETURN_IF_ERROR(OpenStore(options));
  SetOwners(options);
  const SessionProgram::Shared shared = {*devices_, *models_, *saved_sessions_};
  sessions_ = std::make_unique<Sessions>(shared, limits, options.session_program, runner_->audit, runner_->log,
                                         runner_->owners);
  if (options.shared_memory) regions_ = std::make_unique<SharedRegions>();
  infer_streams_ = std::make_unique<InferStreams>(*runner_, *served_, regions_.get());
  services_.push_back(std::make_unique<ServerService>(*runner_, *devices_, store_ != nullptr, [this](const Reach& reach) {
    const auto models = models_->List();
    return std::count_if(models.begin(), models.end(), [&reach](const auto& each) { return reach.Has(each.first); });
  }));
  services_.push_back(std::make_unique<OperatorService>(*runner_, *devices_, *hosts_));
  services_.push_back(std::make_unique<ModelService>(*runner_, *devices_, *models_, *uploads_, store_.get(), live_.get()));
  services_.push_back(std::make_unique<TrainingService>(*runner_, *devices_, *models_, *datasets_,
                                                        stored_datasets_.get()));
  services_.push_back(std::make_unique<SessionService>(*runner_, *sessions_, *saved_sessions_));
  serve_ = options.serve;
  ServingService::Reload reload;
  if (!serve_.empty()) reload = [this](auto done) { ReloadServing(std::move(done)); };
  services_.push_back(std::make_unique<ServingService>(*runner_, *devices_, *models_, *served_, store_.get(), reload));
  services_.push_back(std::make_unique<InferenceService>(*runner_, *served_, *infer_streams_, regions_.get()));
  auto health = std::make_unique<HealthService>(*runner_, *served_, options.health_names == OpenNames::kForCallers);
  health_ = health.get();
  services_.push_back(std::move(health));
  const auto names = [this] {
    std::vector<std::string> names;
    for (const auto& service : services_) names.push_back(service->name());
    return names;
  };
  services_.push_back(std::make_unique<ReflectionService>(*runner_, ReflectionVersion::kV1, names));
  services_.push_back(std::make_unique<ReflectionService>(*runner_, ReflectionVersion::kV1Alpha, names));
  for (const auto& service : services_) {
    RETURN_IF_ERROR(service->CheckComplete());
    health_->AddService(service->name());
  }
  for (const Place* place : devices_->offered()) health_->AddService(place->device.ToString());
  on_device_error_ = options.on_device_error;
  router_ = std::make_unique<Router>(*runner_, gatekeeper_.get());
  // A short lease wants a closer look.
  const std::chrono::milliseconds shortest =
      std::chrono::seconds(std::min<int64_t>({limits.session_lease_seconds, limits.callback_seconds, 4}));
  sweeper_ = std::make_unique<Sweeper>("sweep", [this] { Sweep(); }, shortest / 4);
  identity_sweeper_ = std::make_unique<Sweeper>("identities", [this] { TakeUpIdentities(); }, kIdentityLook);
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

bool Server::Told(absl::string_view flag, const absl::StatusOr<bool>& changed) {
  if (changed.ok() && !*changed) return false;
  if (!changed.ok()) {
    LogEvent("file_not_taken_up", LogLevel::kError, absl::StrCat(changed.status().message(), "; those known before stay"));
  }
  runner_->audit.Tell({.method = "reload", .code = changed.status().code(), .target = std::string(flag)});
  return changed.ok();
}

void Server::TakeUpIdentities() {
  if (tls_ != nullptr) Told("--tls_cert", tls_->Reload());
  const bool tenants = Told("--tenants", runner_->tenants.Reload());
  if (gatekeeper_ == nullptr) return;
  const bool identities = Told("--identities", gatekeeper_->ReloadIdentities());
  Told("--jwt_keys", gatekeeper_->ReloadKeys());
  for (const Identities::Change& change : gatekeeper_->TakeChanges()) {
    runner_->audit.Tell({.method = "reload", .target = change.name, .command = change.what});
  }
  // A second look finds calls that were admitted by the old file and had not begun at the first.
  if (tenants || identities) looks_for_revoked_ = 2;
  if (looks_for_revoked_ == 0 && !gatekeeper_->credentials_end()) return;
  looks_for_revoked_ = std::max(0, looks_for_revoked_ - 1);
  router_->EndRevoked();
  sessions_->HoldUnless([this](absl::string_view method, const Identity& owner, const Reach& reach) {
    return gatekeeper_->MayGoOn(method, owner, reach);
  });
}

void Server::Sweep() {
  LookAtDevices();
  runner_->dispatch.Probe();
  runner_->peers.Sweep();
  runner_->unsent.Sweep(Unsent::Clock::now());
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

void Server::EndThoseWhoKeepTooMuchUnread() {
  const absl::flat_hash_map<std::string, Peers::Given> given = runner_->peers.Look();
  std::vector<Unread::Connection> connections;
  for (Listener::Traffic& traffic : listener_->CountTraffic()) {
    const auto found = given.find(traffic.name);
    connections.push_back({std::move(traffic.name), traffic.received, traffic.sent,
                           found == given.end() ? 0 : found->second.bytes,
                           found == given.end() || found->second.is_renewed,
                           /*has_calls=*/found != given.end()});
  }
  for (const std::string& name : unread_->Look(connections, Unread::Clock::now())) {
    EndConnection(name, Ending::kUnreadMessages);
  }
}

void Server::EndConnection(const std::string& name, Ending ending) {
  runner_->log.Ended(name, ReasonOf(ending));
  listener_->End(name, ending);
}

absl::Status Server::Listen(const ServerOptions& options) {
  grpc::ServerBuilder builder;
  // Above this gRPC itself refuses; between the flag and this Unary does, in words that name the flag.
  const int64_t largest = std::min(2 * options.limits.max_message_bytes, 2 * kLargestMessage - 1);
  builder.SetMaxReceiveMessageSize(static_cast<int>(largest));
  builder.SetMaxSendMessageSize(static_cast<int>(largest));
  // A small compressed message could become any size before anybody can refuse it, so gRPC inflates none (wire/inflate.h).
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Large frames: a tensor arrives in few pieces. A read is one connection's turn, and may hold hundreds of calls.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  // A batch is sent without a wait for the window to be opened further.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 20);
  const int streams = StreamsOfConnection(options.limits, *devices_->memory());
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, Router::kMostReadHeaders);
  LimitConnections(options.connections, &builder);
  // gRPC reads no further on a connection while 10,000 of its pings wait for answers. With strikes it ends the
  // connection, and 16 such connections held a gigabyte (tests/fault, pings).
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // The quota is never reached: there gRPC would end anybody's streams.
  const int64_t most_unread = MostUnread(options.limits, *devices_->memory());
  builder.SetResourceQuota(grpc::ResourceQuota("gluond").Resize(static_cast<size_t>(2 * most_unread)));
  std::vector<std::unique_ptr<AcceptThreads::Acceptor>> acceptors;
  if (!options.address.empty()) {
    ASSIGN_OR_RETURN(listener_, Listener::Open(options.address, options.limits.max_connections, options.unix_users));
    const bool encrypted = options.tls.any() && listener_->port() > 0;
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    for (int i = 0; i < kAcceptThreads; ++i) {
      const auto credentials = WatchedCredentials(
          encrypted ? tls_->NewCredentials() : grpc_insecure_server_credentials_create(), router_->arrivals());
      acceptors.push_back(builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials));
    }
  }
  for (const auto& service : services_) router_->Add(*service);
  router_->RegisterAt(builder);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC cannot start a server");
  poll_threads_ = std::make_unique<PollThreads>(std::move(queue), kPollThreads);
  router_->Start(poll_threads_->queue());
  if (listener_ != nullptr) {
    runner_->peers.Guard(
        streams, [this](const std::string& peer, Ending ending) { EndConnection(peer, ending); },
        [this](const std::string& peer) { return listener_->Socket(peer); });
    accept_threads_ = std::make_unique<AcceptThreads>(std::move(acceptors));
    listener_->Start([this](Descriptor connection) { accept_threads_->Accept(std::move(connection)); },
                     [this] { return runner_->peers.Busy(); });
    unread_ = std::make_unique<Unread>(devices_->memory(), most_unread);
    unread_sweeper_ = std::make_unique<Sweeper>("unread", [this] { EndThoseWhoKeepTooMuchUnread(); }, kUnreadLook);
  }
  return absl::OkStatus();
}

absl::Status Server::ShowMetrics(const ServerOptions& options) {
  if (options.metrics_address.empty()) return absl::OkStatus();
  metrics_ = std::make_unique<Metrics>(Metrics::Parts{
      .runner = *runner_, .services = services_, .router = *router_, .listener = listener_.get(), .tls = tls_.get(),
      .devices = *devices_, .models = *models_, .served = *served_, .hosts = *hosts_->hosts(), .store = store_.get(),
      .sessions = [this] { return sessions_->size(); },
      .datasets = [this] { return static_cast<int64_t>(datasets_->size()); },
      .failed_saves = [this] { return live_ == nullptr ? 0 : live_->failures(); },
      .checkpoint_ages = [this] { return live_ == nullptr ? std::map<std::string, double>() : live_->Ages(); }});
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

std::shared_ptr<grpc::Channel> Server::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

int64_t Server::UnderWay() const {
  return runner_->calls.count() + sessions_->streams().size() + infer_streams_->size();
}

int64_t Server::Drain(std::chrono::nanoseconds grace, std::chrono::nanoseconds lame_duck) {
  using Clock = std::chrono::steady_clock;
  health_->SetNotServing("the server is stopping");
  std::this_thread::sleep_for(lame_duck);
  if (listener_ != nullptr) listener_->Stop();
  runner_->calls.Drain();
  sessions_->Drain();
  infer_streams_->Drain();
  served_->Hurry();
  const auto time = std::chrono::duration_cast<Clock::duration>(grace);
  const Clock::time_point end = Clock::now() + time;
  const auto wait = [&](Clock::time_point until, auto waits_for) {
    while (waits_for() && Clock::now() < until) std::this_thread::sleep_for(kLookAgain);
  };
  wait(end - time / 4, [this] { return UnderWay() > 0; });
  if (live_ != nullptr && time.count() > 0) live_->SaveAll();
  wait(end, [this] { return UnderWay() > 0; });
  if (live_ != nullptr && time.count() > 0) {
    wait(end, [this] { return live_->busy(); });
    live_->SaveAll();  // The models whose calls ended since.
    wait(end, [this] { return live_->busy(); });
  }
  const int64_t cut = UnderWay();
  hosts_->Drain();
  router_->Stop();
  server_->Shutdown(std::chrono::system_clock::now() + (cut == 0 ? kFarewell : std::chrono::seconds(0)));
  router_->Wait();
  sessions_->End();
  if (loads_ != nullptr) loads_->Stop();
  if (live_ != nullptr) {
    live_->Stop();
    unsaved_ = time.count() > 0 ? live_->unsaved() : 0;
  }
  if (stored_datasets_ != nullptr) stored_datasets_->Stop();
  saved_sessions_->Stop();
  served_->Stop();
  if (stored_owners_ != nullptr) stored_owners_->Stop();
  runner_->log.Flush();
  runner_->audit.Flush();
  return cut;
}

Server::~Server() {
  if (server_ != nullptr) Drain(std::chrono::seconds(0));
}

}  // namespace gluond::server
