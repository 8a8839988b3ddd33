// ServedModels: every published version by its model's name and its number, the routes to them, and their store.
//
//   ServedModels served(runner, devices, std::move(store), log);
//   served.Load(loads);                                                   // Before the first call.
//   served.Publish("digits", state, facts, {"stable"}, [](absl::StatusOr<v1::ServedVersion> version) { ... });
//   ASSIGN_OR_RETURN(ServedVersionPtr version, served.Choose("digits", /*version=*/"", request_id));
//   served.Stop();
//
// Thread-safe. Functions with `done` return at once; those about one name take place one after another. The disk's threads
// read and write for them; versions are made beside the lanes, and no thread waits for one. Requests never wait for them: a
// version is served by the moment in which it stands in the table.

#ifndef SERVER_SERVING_SERVED_MODELS_H_
#define SERVER_SERVING_SERVED_MODELS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/runtime/task.h"
#include "gluond/v1/serving.pb.h"
#include "server/durable/loads.h"
#include "server/durable/turns.h"
#include "server/hosted/devices.h"
#include "server/rpc/runner.h"
#include "server/serving/alarm.h"
#include "server/serving/serve_file.h"
#include "server/serving/served_version.h"
#include "server/serving/stored_versions.h"

namespace gluond::server {

class ServedModels {
 public:
  using Versions = std::vector<v1::ServedVersion>;

  // `store` holds versions alone; null: there is none. `runner` and `devices` are there until Stop returns.
  ServedModels(Runner& runner, Devices& devices, std::unique_ptr<CheckpointStore> store, LogSink log);

  // Begins to serve the versions that the store has, and knows all of them when it returns. One that is not ready yet, or
  // cannot be served, which is logged, is UNAVAILABLE.
  void Load(Loads& loads);

  // The errors of each are those of its method in the .proto.

  // `rewound_to`: the version to which a crash has taken the source back. A version of a later one that the same call has
  // published is the answer: a crash takes back the call's number and not the version.
  void Publish(const std::string& name, ModelState state, VersionFacts facts, std::vector<std::string> labels,
               std::function<void(absl::StatusOr<v1::ServedVersion>)> done, std::optional<uint64_t> rewound_to = {});
  struct Change {
    std::map<std::string, int64_t> labels;  // 0: none has it.
    std::map<int64_t, uint32_t> weights;
    bool clear_weights = false;
    std::optional<std::string> expected_etag;
  };
  void Route(const std::string& name, Change change, std::function<void(absl::StatusOr<Versions>)> done);
  using Done = std::function<void(const absl::Status&)>;
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
  void Declare(std::function<absl::StatusOr<Declaration>()> read, const CheckpointStore* checkpoints,
               std::function<void(absl::StatusOr<Declaration>)> done);

  // `version`: a number or a label; empty: the routes choose, by `id`. Without an `id` that is the label `stable`'s, else the
  // highest that is ready, whatever the weights. NOT_FOUND: there is none. UNAVAILABLE: it is not ready, or nobody knows the
  // routes any more.
  absl::StatusOr<ServedVersionPtr> Choose(const std::string& name, const std::string& version,
                                          std::optional<absl::string_view> id) const;
  // The ready versions of a name. NOT_FOUND: there is no such name.
  absl::StatusOr<std::vector<ServedVersionPtr>> Ready(const std::string& name) const;
  // The ready versions of all names.
  std::vector<std::pair<std::string, ServedVersionPtr>> AllReady() const;
  // By name and number. Empty `name`: all.
  Versions List(const std::string& name = "") const;
  // Whether there is a version of that name, or an index of some on the disk.
  bool Has(const std::string& name) const {
    MutexLock lock(mu_);
    return models_.contains(name);
  }

  // Few requests come any more: those that wait for others to join them are computed at once.
  void Hurry();
  // Refuses requests that wait, and waits for what is under way. Requires: no more calls come.
  void Stop();

 private:
  using State = v1::ServedVersion::State;
  struct Version {
    VersionFacts facts;
    State state = v1::ServedVersion::LOADING;
    std::string reason;
    bool retiring = false;    // It leaves for good: no route leads to it, and the index has it no more.
    std::string revision;     // Its checkpoint's (CheckpointStore::Revision), where it is declared.
    ServedVersionPtr served;  // While it is ready, or answers its last requests.
  };
  struct Model {
    absl::Status status;  // Why this server cannot read its index.
    int64_t next = 1;
    int64_t revision = 0;  // Counts changes of versions and routes.
    std::map<int64_t, Version> versions;
    Routes routes;
    bool is_declared = false;  // By Declare, which alone changes it.
  };
  using Models = std::map<std::string, Model>;

  Task<absl::StatusOr<Declaration>> DeclareNow(std::function<absl::StatusOr<Declaration>()> read,
                                               const CheckpointStore* checkpoints);
  // The models that `declaration` wants, with those of their versions that are there already.
  absl::StatusOr<Models> Plan(const Declaration& declaration, const CheckpointStore* checkpoints) const;
  absl::Status CheckDeclarable(const Models& planned) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<ModelState> ReadCheckpoint(const std::string& name, const CheckpointStore& checkpoints) const;
  Task<absl::Status> Make(const std::string& name, int64_t number, const CheckpointStore& checkpoints, Version* version);
  // Puts the planned models in the place of those declared before, whose other versions it returns.
  absl::StatusOr<std::vector<ServedVersionPtr>> Replace(Models planned);
  // Another text after each change; no later version of the name has it again.
  static std::string EtagOf(const Model& model);
  // ABORTED, with the reason VERSION_CHANGED: the model has another etag.
  static absl::Status CheckEtag(const Model& model, const std::string& name, const std::optional<std::string>& expected);
  // FAILED_PRECONDITION: the model is declared.
  static absl::Status CheckUndeclared(const Model& model, const std::string& name);

  Task<absl::StatusOr<v1::ServedVersion>> PublishNow(std::string name, ModelState state, VersionFacts facts,
                                                     std::vector<std::string> labels, std::optional<uint64_t> rewound_to);
  std::optional<v1::ServedVersion> FindPublished(const std::string& name, const VersionFacts& facts,
                                                 std::optional<uint64_t> rewound_to) const;
  absl::StatusOr<int64_t> Reserve(const std::string& name, const VersionFacts& facts);
  Task<absl::Status> MakeAndKeep(const std::string& name, int64_t number, ModelState state, const ServingOptions& options,
                                 const Routes& routes);
  absl::StatusOr<Versions> RouteNow(const std::string& name, const Change& change);
  // The index as the store has it; where it is damaged or missing, what the values' `numbers` tell.
  VersionIndex ReadIndex(const std::string& name, const std::vector<int64_t>& numbers, absl::Status* status) const;
  absl::StatusOr<ServedVersionPtr> TakeOut(const std::string& name, int64_t number,
                                           const std::optional<std::string>& expected_etag);
  absl::Status Forget(const std::string& name, int64_t number);
  // Keeps a name's next number alone, where all its versions are retired.
  absl::Status ForgetName(const std::string& name);
  void LoadRetired();
  // Whether the store has versions of the name for this server. Tells the log what is not in order.
  bool LoadIndex(const std::string& name, const std::vector<int64_t>& numbers);
  void LogFault(const std::string& what, const absl::Status& status) const;
  Task<absl::Status> LoadNow(std::string name);
  Task<absl::Status> LoadInTurn(std::string name);
  void LogLostInvariance(const std::string& name, int64_t number, const ModelState& state,
                         const ServingOptions& options) const;
  absl::StatusOr<ModelState> ReadValues(const std::string& name, int64_t number) const;
  // Writes the index of a name with these routes.
  absl::Status SaveIndex(const std::string& name, const Routes& routes);
  // Whether it has versions, but for those that leave for good.
  static bool IsServed(const Model& model);
  absl::StatusOr<Model*> FindModel(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<const Model*> FindModel(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The number of the version that a request gets.
  absl::StatusOr<int64_t> Number(const Model& model, const std::string& name, const std::string& version,
                                 std::optional<absl::string_view> id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // NOT_FOUND: there is none, or it leaves for good.
  static absl::StatusOr<const Version*> FindVersion(const Model& model, const std::string& name, int64_t number);
  static absl::Status NoVersion(const Model& model, const std::string& name, absl::string_view version);
  // Makes the version ready, or unavailable with the reason. Ends on any thread.
  Task<absl::Status> Serve(const std::string& name, int64_t number, ModelState state, const ServingOptions& options);
  void Remember(const ServedVersionPtr& served) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::ServedVersion Describe(const std::string& name, const Model& model, int64_t number) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Versions ListLocked(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // All versions that have requests, retired ones, too.
  std::vector<ServedVersionPtr> All() const;

  Runner& runner_;
  Devices& devices_;
  const std::unique_ptr<StoredVersions> store_;  // Null: there is none.
  const LogSink log_;
  Alarm alarm_;
  Turns turns_;
  Mutex retired_mu_;  // Taken before mu_, by whoever saves retired names, until they are saved.
  mutable Mutex mu_;
  Models models_ ABSL_GUARDED_BY(mu_);  // Each has versions, unless its index cannot be read.
  std::map<std::string, RetiredNames> retired_ ABSL_GUARDED_BY(mu_);  // By the prefix of the tenant's names.
  std::vector<std::weak_ptr<ServedVersion>> all_ ABSL_GUARDED_BY(mu_);  // Retired ones, too, while they have requests.
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_SERVED_MODELS_H_
