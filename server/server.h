// Server: the services, and all that they share, behind one gRPC server with health and reflection.
//
//   ASSIGN_OR_RETURN(auto server, Server::Start({.address = "127.0.0.1:0"}));
//   ... server->port() ...
//   server->Drain(std::chrono::seconds(30));
//
// A request's path: router.h finds its row, unary.h admits and parses it, the service's method answers.

#ifndef SERVER_SERVER_H_
#define SERVER_SERVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/store/checkpoint.h"
#include "grpcpp/grpcpp.h"
#include "server/custom/host_stream.h"
#include "server/durable/live_models.h"
#include "server/durable/loads.h"
#include "server/durable/saved_sessions.h"
#include "server/durable/stored_datasets.h"
#include "server/durable/stored_owners.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_dataset.h"
#include "server/hosted/hosted_model.h"
#include "server/hosted/parameter_uploads.h"
#include "server/hosted/sweeper.h"
#include "server/identity/gatekeeper.h"
#include "server/identity/jwt.h"
#include "server/identity/tls.h"
#include "server/net/accept_threads.h"
#include "server/net/listener.h"
#include "server/net/poll_threads.h"
#include "server/net/unread.h"
#include "server/rpc/log.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/router.h"
#include "server/services/health_service.h"
#include "server/services/infer_stream.h"
#include "server/serving/served_models.h"
#include "server/session/sessions.h"
#include "server/sight/metrics.h"
#include "server/sight/metrics_server.h"
#include "server/start/checkpoint_schedule.h"
#include "server/start/connection_life.h"
#include "server/start/limits.h"
#include "server/start/store_claim.h"
#include "server/wire/shared_regions.h"

namespace gluond::server {

struct ServerOptions {
  std::string address;           // "127.0.0.1:50051", "unix:PATH"; empty: in process only, for tests.
  std::string devices = "auto";
  int cpu_threads = 0;           // 0: one for each processor.
  int serve_share = Devices::kServeShare;  // As of Devices::Open.
  std::string store_dir;         // Empty: no checkpoints.
  TlsFiles tls;                  // On TCP. Empty: no encryption.
  std::string identities;        // The file of those who may call. Empty, without tls.client_authority: everybody may.
  JwtOptions jwt;                // Without its keys no JSON Web Token says who calls.
  bool strict_ownership = false;  // Only who made a thing may change it (identity/owners.h). Needs to know who calls.
  std::string tenants;           // The file of the tenants. Empty: there is the default one alone. Needs identities.
  // Nothing: none where there are identities or keys of JSON Web Tokens, else local.
  std::optional<UnixIdentity> unix_identity = std::nullopt;
  OpenNames health_names = OpenNames::kForAll;  // The callers who may ask health for more than the server.
  std::vector<uint32_t> unix_users;  // Users who may connect to a Unix socket, beside the server's own and root.
  LogSink audit;                 // Null: no audit log.
  AuditLog::Health audit_health = nullptr;  // Null: what has lines of it is done, whether they are written or not.
  LogSink access;                // Null: no line for each call.
  int64_t access_every = 1;      // One of so many calls that went well has a line.
  LogLevel log_level = LogLevel::kInfo;  // The least of lines on calls.
  ConnectionLife connections;
  Limits limits;
  std::string metrics_address;     // "127.0.0.1:9100" for Prometheus and probes; empty: none.
  std::string metrics_token_file;  // A file with the token that Prometheus sends; empty: none.
  CheckpointSchedule checkpoint_every;  // How often live models are saved. Needs a store.
  bool ready_when_core = false;  // Takes calls before all of the store is loaded: those about the rest are UNAVAILABLE.
  std::string serve;             // The file of the versions to serve (serving/serve_file.h); empty: calls alone publish some.
  bool shared_memory = false;    // Whether clients may name shared memory of this machine.
  LogSink log = &LogToStderr;
  // Called once for each device that fails for good, soon after, with a sentence that names it. May end the process.
  std::function<void(const absl::Status& why)> on_device_error;
  SessionProgramFactory session_program = &SessionProgram::Create;
};

class Server {
 public:
  // Returns when the datasets and the models of the store are there, but with `ready_when_core`: until then health says
  // NOT_SERVING, and calls get UNAVAILABLE.
  // INVALID_ARGUMENT, FAILED_PRECONDITION: an option. UNAVAILABLE: the address is taken, or a device is not there.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  // Reads the files that the options name and looks for the devices and folders, as Start would, and changes nothing and
  // listens nowhere. Says in the end what is to be served. A store that another server uses may be named.
  // The errors of Start about options and files. NOT_FOUND: a checkpoint that the file `serve` names.
  static absl::StatusOr<std::string> Check(const ServerOptions& options);
  ~Server();

  int port() const { return listener_ == nullptr ? 0 : listener_->port(); }  // 0 for a Unix socket.
  int metrics_port() const { return metrics_server_ == nullptr ? 0 : metrics_server_->port(); }
  const Devices& devices() const { return *devices_; }
  const Sessions& sessions() const { return *sessions_; }
  CustomHosts& custom_hosts() const { return *hosts_->hosts(); }
  // The queues of work, and how long it waits in each.
  std::vector<Dispatch::Queue> queues() const { return runner_->dispatch.queues(); }
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Ends all, and returns how many calls and streams of sessions had to be cut; 0 is a clean end. In this order:
  //
  //   1. Health says NOT_SERVING; for `lame_duck` calls are taken as before, until those who ask have heard of it.
  //   2. New calls get UNAVAILABLE. Calls and sessions' commands under way have `grace` to end; a Train ends after the
  //      steps under way. The streams of clients that compute operators stay meanwhile: such calls need them.
  //   3. Models are saved as they are now, in the rest of that time, and in the last quarter of it where calls are still
  //      under way. Without any `grace` none is.
  //   4. These streams end, then the connections, then the sessions.
  int64_t Drain(std::chrono::nanoseconds grace, std::chrono::nanoseconds lame_duck = {});
  // Models that a Drain with some `grace` could not save as they were, of which the log tells why.
  int64_t unsaved() const { return unsaved_; }
  // SIGHUP has come: reads the file `serve` again, and serves what it declares, all of it or nothing. `done` may be called on
  // another thread. FAILED_PRECONDITION: the options name none.
  void HangUp(std::function<void(absl::StatusOr<Declaration>)> done);
  // Calls and streams of sessions that have not ended.
  int64_t UnderWay() const;

 private:
  Server() = default;
  static absl::StatusOr<std::unique_ptr<Gatekeeper>> NewGatekeeper(const ServerOptions& options, Tenants& tenants);
  absl::Status CreateGatekeeper(const ServerOptions& options);
  absl::Status OpenStore(const ServerOptions& options);
  void BeginLoading();
  // Tells the owners of things which of these there are.
  void SetOwners(const ServerOptions& options);
  absl::Status CreateServices(const ServerOptions& options);
  void Sweep();
  void LookAtDevices();
  // Requires: the options name a file `serve`.
  void ReloadServing(std::function<void(absl::StatusOr<Declaration>)> done);
  void TakeUpIdentities();
  // Tells of a file of a flag that has changed, or is wrong. Whether it has changed and is taken up.
  bool Told(absl::string_view flag, const absl::StatusOr<bool>& changed);
  void EndConnection(const std::string& name, Ending ending);
  void EndThoseWhoKeepTooMuchUnread();
  absl::Status Listen(const ServerOptions& options);
  std::string WhatHangs();
  absl::Status ShowMetrics(const ServerOptions& options);

  // Members stand in the order of use: the last is destroyed first.
  std::unique_ptr<Devices> devices_;
  std::unique_ptr<StoreClaim> store_claim_;  // Null without --store_dir, as store_.
  std::unique_ptr<CheckpointStore> store_;
  std::unique_ptr<Models> models_;
  std::unique_ptr<Datasets> datasets_;
  std::unique_ptr<ParameterUploads> uploads_;
  std::unique_ptr<SavedSessions> saved_sessions_;
  std::string serve_;  // ServerOptions::serve.
  std::unique_ptr<ServedModels> served_;
  std::unique_ptr<SharedRegions> regions_;  // Null without `shared_memory`.
  std::unique_ptr<InferStreams> infer_streams_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<HostStreams> hosts_;
  std::unique_ptr<StoredDatasets> stored_datasets_;  // Null without --store_dir, as live_.
  std::unique_ptr<LiveModels> live_;
  std::unique_ptr<Loads> loads_;
  std::unique_ptr<StoredOwners> stored_owners_;
  int64_t unsaved_ = 0;
  std::unique_ptr<Runner> runner_;
  std::vector<std::unique_ptr<RawService>> services_;
  HealthService* health_ = nullptr;  // One of services_.
  std::function<void(const absl::Status& why)> on_device_error_;
  absl::flat_hash_set<std::string> failed_devices_;  // The sweeper's.
  std::unique_ptr<TlsCertificates> tls_;    // Null without `tls`.
  std::unique_ptr<Gatekeeper> gatekeeper_;  // Null where everybody may call everything.
  int looks_for_revoked_ = 0;               // The identity sweeper's: it looks so many more times.
  std::unique_ptr<Router> router_;
  std::unique_ptr<Sweeper> sweeper_;
  std::unique_ptr<Sweeper> identity_sweeper_;  // A disk that does not answer keeps the other one from nothing.
  std::unique_ptr<Sweeper> live_sweeper_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<PollThreads> poll_threads_;
  std::unique_ptr<AcceptThreads> accept_threads_;  // Null in process.
  std::unique_ptr<Listener> listener_;  // Null in process.
  std::unique_ptr<Unread> unread_;
  std::unique_ptr<Sweeper> unread_sweeper_;
  std::atomic<bool> hangs_ = false;  // As of the last look.
  std::unique_ptr<Metrics> metrics_;  // Null without --metrics_address, as metrics_server_.
  std::unique_ptr<MetricsServer> metrics_server_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVER_H_
