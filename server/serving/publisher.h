// Publisher: the jobs that make, store, load and retire published versions. Requests ask its table for them.
//
//   Publisher publisher(runner, devices, std::move(store), log);
//   publisher.Load(loads);                                                   // Before the first call.
//   publisher.Publish("digits", state, facts, {"stable"}, cancellation, [](absl::StatusOr<v1::ServedVersion> version) { ... });
//   ASSIGN_OR_RETURN(ServedVersionPtr version, publisher.table().Choose("digits", /*version=*/"", request_id));
//   publisher.Stop();
//
// Thread-safe. Functions with `done` return at once; those about one name take place one after another. The disk's threads
// read and write for them; versions are made beside the lanes, and no thread waits for one.

#ifndef SERVER_SERVING_PUBLISHER_H_
#define SERVER_SERVING_PUBLISHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/runtime/task.h"
#include "server/durable/loads.h"
#include "server/durable/turns.h"
#include "server/hosted/devices.h"
#include "server/rpc/runner.h"
#include "server/serving/alarm.h"
#include "server/serving/lineage.h"
#include "server/serving/serve_file.h"
#include "server/serving/version_table.h"

namespace gluond::server {

class Publisher {
 public:
  // `store` holds versions alone; null: there is none. `runner` and `devices` are there until Stop returns.
  // `leader`: the address of the server that this one follows: Publish, Route, Retire and Unload are FAILED_PRECONDITION then. Empty:
  // there is none.
  Publisher(Runner& runner, Devices& devices, std::unique_ptr<CheckpointStore> store, LogSink log, std::string leader = "");

  const VersionTable& table() const { return table_; }

  // Begins to serve the versions that the store has, and knows all of them when it returns. One that is not ready yet, or
  // cannot be served, which is logged, is UNAVAILABLE.
  void Load(Loads& loads);

  // The errors of each are those of its method in the .proto.

  // `rewound_to`: the version to which a crash has taken the source back. A version of a later one that the same call has
  // published is the answer: a crash takes back the call's number and not the version.
  using Done = std::function<void(const absl::Status&)>;
  void Publish(const std::string& name, ModelState state, VersionFacts facts, std::vector<std::string> labels,
               std::shared_ptr<Cancellation> cancellation, std::function<void(absl::StatusOr<v1::ServedVersion>)> done,
               std::optional<uint64_t> rewound_to = {});
  void Route(const std::string& name, VersionTable::Change change,
             std::function<void(absl::StatusOr<VersionTable::Versions>)> done);
  void Retire(const std::string& name, int64_t number, const std::optional<std::string>& expected_etag, Done done);
  // Ends the serving of a name's versions, which stay in the store. UNAVAILABLE: there is no store.
  void Unload(const std::string& name, Done done);
  // Serves the versions that are not.
  void LoadAgain(const std::string& name, Done done);

  // Serves all that `read` tells, and no longer what the last such call declared: all or nothing, and at once. A version
  // that is as it was goes on; each other one is made of its checkpoint and ready before a request sees any change.
  // Nobody else changes a name that is declared. `read` is called when the declarations before have taken place.
  //
  // Errors of `read`. FAILED_PRECONDITION: a name has published versions, or `checkpoints` is null and there are some to
  // read. NOT_FOUND: a checkpoint. INVALID_ARGUMENT: an option that does not fit its model. RESOURCE_EXHAUSTED: a limit.
  using ReadDeclaration = std::function<absl::StatusOr<Declaration>()>;
  void Declare(ReadDeclaration read, const CheckpointStore* checkpoints, std::function<void(absl::StatusOr<Declaration>)> done);

  // Functions for servers that follow this one.

  // FAILED_PRECONDITION: there is no store.
  absl::Status CheckFollowable() const;
  const Lineage& lineage() const { return lineage_; }
  // VersionTable::Published with the versions' checksums, but for names of which one cannot be read. Waits for the disk.
  VersionTable::Indices ListWithChecksums() const;
  // A file of a version's values. NOT_FOUND: there is none, or it has another checksum. Waits for the disk.
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenFile(const std::string& name, int64_t number, uint32_t checksum,
                                                         const std::string& file) const;

  // Functions for a server that follows another one.

  Lineage& lineage() { return lineage_; }
  // Serves a leader's version under its number, in the store, too. It computes on the leader's device if this server has one of that
  // name, else on the first one. ALREADY_EXISTS, and the errors of Publish.
  void Adopt(const std::string& name, int64_t number, ModelState state, VersionFacts facts,
             std::shared_ptr<Cancellation> cancellation, Done done);
  // Gives a name a leader's routes and next number. Requires: the routes lead to versions that are there.
  void AdoptRoutes(const std::string& name, Routes routes, int64_t next, Done done);
  // Ends a version that the leader has retired. As Retire.
  void Drop(const std::string& name, int64_t number, Done done);

  // Few requests come any more: those that wait for others to join them are computed at once.
  void Hurry();
  // Refuses requests that wait, and waits for what is under way. Requires: no more calls come.
  void Stop();

 private:
  // Ends on any thread.
  Task<absl::StatusOr<ServedVersionPtr>> Make(const std::string& name, int64_t number, ModelState state,
                                              const ServingOptions& options, std::shared_ptr<Cancellation> cancellation = nullptr);
  // Writes the index of a name with these routes.
  absl::Status SaveIndex(const std::string& name, const Routes& routes);

  Task<absl::StatusOr<v1::ServedVersion>> PublishNow(std::string name, ModelState state, VersionFacts facts,
                                                     std::vector<std::string> labels, std::shared_ptr<Cancellation> cancellation,
                                                     std::optional<uint64_t> rewound_to, std::optional<int64_t> number = {});
  Task<absl::Status> MakeAndKeep(const std::string& name, const VersionTable::Reserved& reserved, ModelState state,
                                 const ServingOptions& options, std::shared_ptr<Cancellation> cancellation);

  absl::Status CheckLeads() const;
  void RetireUnder(const std::string& name, int64_t number, const std::optional<std::string>& expected_etag, Done done);
  absl::Status Forget(const std::string& name, int64_t number);
  // Keeps a name's next number alone, where all its versions are retired.
  absl::Status ForgetName(const std::string& name);
  // All versions that have requests, retired ones, too.
  std::vector<ServedVersionPtr> All() const;

  void LoadRetired();
  // Whether the store has versions of the name for this server. Tells the log what is not in order.
  bool LoadIndex(const std::string& name, const std::vector<int64_t>& numbers);
  // The index as the store has it; where it is damaged or missing, what the values' `numbers` tell.
  VersionIndex ReadIndex(const std::string& name, const std::vector<int64_t>& numbers, absl::Status* status) const;
  Task<absl::Status> LoadNow(std::string name);
  Task<absl::Status> LoadInTurn(std::string name);
  absl::StatusOr<ModelState> ReadValues(const std::string& name, int64_t number) const;
  // Unless the status is OK.
  void LogFault(const std::string& what, const absl::Status& status) const;
  void LogLostInvariance(const std::string& name, int64_t number, const ModelState& state, const ServingOptions& options) const;

  Task<absl::StatusOr<Declaration>> DeclareNow(ReadDeclaration read, const CheckpointStore* checkpoints);
  // The models that `declaration` wants, with those of their versions that are there already.
  absl::StatusOr<VersionTable::Models> Plan(const Declaration& declaration, const CheckpointStore* checkpoints) const;
  Task<absl::StatusOr<ServedVersionPtr>> MakeDeclared(const std::string& name, int64_t number, const VersionFacts& facts,
                                                      const CheckpointStore& checkpoints);
  absl::StatusOr<ModelState> ReadCheckpoint(const std::string& name, const CheckpointStore& checkpoints) const;

  Runner& runner_;
  Devices& devices_;
  const std::unique_ptr<StoredVersions> store_;  // Null: there is none.
  const LogSink log_;
  const std::string leader_;
  Lineage lineage_;
  Alarm alarm_;
  Turns turns_;
  VersionTable table_;
  Mutex retired_mu_;  // Taken by whoever saves retired names, until they are saved.
  mutable Mutex mu_;
  std::vector<std::weak_ptr<ServedVersion>> made_ ABSL_GUARDED_BY(mu_);  // Retired ones, too, while they have requests.
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_PUBLISHER_H_
