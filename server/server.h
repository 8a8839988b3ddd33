// Server: the services, and all that they share, behind one gRPC server with health and reflection.
//
//   ASSIGN_OR_RETURN(auto server, Server::Start({.address = "127.0.0.1:0"}));
//   ... server->port() ...
//   server->Drain(std::chrono::seconds(30));
//
// A request's path: router.h finds its row, unary_call.cc brings it to the service's method, which answers.

#ifndef SERVER_SERVER_H_
#define SERVER_SERVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/custom/host_stream.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_dataset.h"
#include "server/hosted/hosted_model.h"
#include "server/hosted/parameter_uploads.h"
#include "server/hosted/sweeper.h"
#include "server/identity_files.h"
#include "server/options.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/runner.h"
#include "server/services/health_service.h"
#include "server/services/infer_stream.h"
#include "server/session/sessions.h"
#include "server/sight/metrics.h"
#include "server/sight/metrics_server.h"
#include "server/stores.h"
#include "server/transport.h"
#include "server/wire/shared_regions.h"

namespace gluond::server {

class Follower;

struct GroupPart;

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

  int port() const { return transport_->port(); }  // 0 for a Unix socket.
  int metrics_port() const { return metrics_server_ == nullptr ? 0 : metrics_server_->port(); }
  const Devices& devices() const { return *devices_; }
  const Sessions& sessions() const { return *sessions_; }
  CustomHosts& custom_hosts() const { return *hosts_->hosts(); }
  // The queues of work, and how long it waits in each.
  std::vector<Dispatch::Queue> queues() const { return runner_->dispatch.queues(); }
  std::shared_ptr<grpc::Channel> InProcessChannel() { return transport_->InProcessChannel(); }

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
  Server();
  void BeginToServe();
  void OpenLogs(const ServerOptions& options);
  void ListQueues();
  // Tells the owners of things which of these there are.
  void SetOwners(const ServerOptions& options);
  absl::Status CreateServices(const ServerOptions& options);
  absl::Status ShowMetrics(const ServerOptions& options);
  void BeginSweeps(const Limits& limits);
  void Sweep();
  void LookAtDevices();
  // Requires: the options name a file `serve`.
  void ReloadServing(std::function<void(absl::StatusOr<Declaration>)> done);
  std::string WhatHangs();

  // Members stand in the order of use: the last is destroyed first.
  std::unique_ptr<Devices> devices_;
  std::unique_ptr<Models> models_;
  std::unique_ptr<Datasets> datasets_;
  std::unique_ptr<ParameterUploads> uploads_;
  std::unique_ptr<Stores> stores_;
  std::string serve_;                       // ServerOptions::serve.
  std::unique_ptr<SharedRegions> regions_;  // Null without `shared_memory`.
  std::unique_ptr<InferStreams> infer_streams_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<HostStreams> hosts_;
  int64_t unsaved_ = 0;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<GroupPart> group_;
  std::vector<std::unique_ptr<RawService>> services_;
  HealthService* health_ = nullptr;  // One of services_.
  std::function<void(const absl::Status& why)> on_device_error_;
  absl::flat_hash_set<std::string> failed_devices_;  // The sweeper's.
  std::unique_ptr<Follower> follower_;               // Null: the server follows nobody.
  std::unique_ptr<IdentityFiles> identities_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Sweeper> sweeper_;
  std::unique_ptr<Sweeper> identity_sweeper_;  // A disk that does not answer keeps the other one from nothing.
  std::atomic<bool> hangs_ = false;            // As of the last look.
  std::unique_ptr<Metrics> metrics_;           // Null without --metrics_address, as metrics_server_.
  std::unique_ptr<MetricsServer> metrics_server_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVER_H_
