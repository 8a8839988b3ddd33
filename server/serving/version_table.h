// VersionTable: every published version by its model's name and its number, and the routes to them. The table computes
// nothing and knows no disk: Publisher (publisher.h) makes and stores versions, and tells the table of each step.
//
//   ASSIGN_OR_RETURN(ServedVersionPtr version, table.Choose("digits", /*version=*/"", request_id));
//
// Thread-safe. A request waits for no step: a version is served by the moment in which the table has it ready. The steps of one
// name come one after another.

#ifndef SERVER_SERVING_VERSION_TABLE_H_
#define SERVER_SERVING_VERSION_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "gluond/v1/serving.pb.h"
#include "server/identity/tenants.h"
#include "server/serving/served_version.h"
#include "server/serving/stored_versions.h"

namespace gluond::server {

class VersionTable {
 public:
  using Versions = std::vector<v1::ServedVersion>;
  struct Version {
    VersionFacts facts;
    v1::ServedVersion::State state = v1::ServedVersion::LOADING;
    std::string reason;
    bool is_new = false;      // Its publishing has not ended.
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
    bool is_declared = false;  // By Replace, which alone changes it.
  };
  using Models = std::map<std::string, Model>;

  // `most`: versions of all names. `is_stored`: a published version is on the disk, too.
  VersionTable(int64_t most, const Tenants& tenants, bool is_stored)
      : most_(static_cast<size_t>(most)), tenants_(tenants), is_stored_(is_stored) {}

  // `version`: a number or a label; empty: the routes choose, by `id`. Without an `id` that is the label `stable`'s, else the
  // highest that is ready, whatever the weights. NOT_FOUND: there is none. UNAVAILABLE: it is not ready, or nobody knows the
  // routes any more.
  absl::StatusOr<ServedVersionPtr> Choose(const std::string& name, const std::string& version,
                                          std::optional<absl::string_view> id) const;
  // NOT_FOUND: there is no such name.
  absl::Status Check(const std::string& name) const {
    MutexLock lock(mu_);
    return FindModel(name).status();
  }
  // The ready versions, by name and number. Empty `name`: all.
  std::vector<std::pair<std::string, ServedVersionPtr>> Ready(const std::string& name = "") const;
  // By name and number. Empty `name`: all.
  Versions List(const std::string& name = "") const;
  // Whether there is a version of that name, or an index of some on the disk.
  bool Has(const std::string& name) const {
    MutexLock lock(mu_);
    return models_.contains(name);
  }

  // Names with the versions that calls have published and not retired, ready or not, as the next index of each would have them.
  // A name whose versions are all retired has none, and its next number. A name whose index, or whose routes, this server does
  // not know, is not there, nor is a declared one.
  using Indices = std::map<std::string, VersionIndex>;
  Indices Published() const;

  // Publisher alone calls the functions that follow. Errors are those of the methods in the .proto.

  // The version that the call which `facts` name has published before (Publisher::Publish).
  std::optional<v1::ServedVersion> FindPublished(const std::string& name, const VersionFacts& facts,
                                                 std::optional<uint64_t> rewound_to) const;
  // A new version, which is LOADING, and the routes that it wants: it has the labels.
  struct Reserved {
    int64_t number = 0;
    Routes routes;
    int64_t next_before = 1;  // The name's next number, which it has again where the version is not kept.
  };
  // `number`: a leader's for it; nothing: the name's next one. ALREADY_EXISTS: there is a version of that number.
  absl::StatusOr<Reserved> Reserve(const std::string& name, const VersionFacts& facts, const std::vector<std::string>& labels,
                                   std::optional<int64_t> number = std::nullopt);
  // The version is READY, with these routes. `kept`: whether the disk has it; an error: there was no such version.
  absl::StatusOr<v1::ServedVersion> EndPublish(const std::string& name, const Reserved& reserved, const absl::Status& kept);
  void SetServed(const std::string& name, int64_t number, ServedVersionPtr served);
  // READY, or UNAVAILABLE for this reason.
  void SetLoaded(const std::string& name, int64_t number, absl::StatusOr<ServedVersionPtr> loaded);

  struct Change {
    std::map<std::string, int64_t> labels;  // 0: none has it.
    std::map<int64_t, uint32_t> weights;
    bool clear_weights = false;
    std::optional<std::string> expected_etag;
  };
  absl::StatusOr<Routes> PlanRoutes(const std::string& name, const Change& change) const;
  void SetRoutes(const std::string& name, Routes routes);
  // The versions of a name have numbers below `next`, from now on. NOT_FOUND: there is no such name.
  absl::Status RaiseNext(const std::string& name, int64_t next);
  // The index of a name that has these routes from now on. Counts a change.
  VersionIndex NextIndex(const std::string& name, const Routes& routes);
  // A name as its index has it. `status`: why it cannot be read.
  void Add(const std::string& name, const VersionIndex& index, absl::Status status);

  // The version leaves for good, and is no more in the index. Returns the name's routes.
  absl::StatusOr<Routes> BeginRetire(const std::string& name, int64_t number, const std::optional<std::string>& expected_etag);
  // UNLOADING; null: it was not served. `saved`: whether the index is without it; an error: it goes on.
  absl::StatusOr<ServedVersionPtr> EndRetire(const std::string& name, int64_t number, const absl::Status& saved);
  void Erase(const std::string& name, int64_t number);
  // Keeps the next number of a name whose versions are all erased. Returns its tenant's such names; nothing: it has versions.
  std::optional<RetiredNames> RetireName(const std::string& name);
  // If it still has no versions: it may be declared meanwhile.
  void EraseName(const std::string& name);
  void SetRetired(const std::string& tenant, RetiredNames names);

  // The ready versions are UNLOADING: those that are returned.
  absl::StatusOr<std::map<int64_t, ServedVersionPtr>> BeginUnload(const std::string& name);
  // Unless it was retired, or loaded again, meanwhile.
  void EndUnload(const std::string& name, int64_t number, const ServedVersion* drained);
  // Those that are not served are LOADING. Returns their options.
  absl::StatusOr<std::map<int64_t, ServingOptions>> BeginLoad(const std::string& name);

  // The models that are to be declared, with those of their versions that are there already.
  absl::StatusOr<Models> Plan(Models wanted) const;
  // Puts the planned models in the place of those declared before, whose other versions it returns.
  absl::StatusOr<std::vector<ServedVersionPtr>> Replace(Models planned);

 private:
  absl::Status CheckDeclarable(const Models& planned) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<const Model*> FindModel(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::ServedVersion Describe(const std::string& name, const Model& model, int64_t number) const;

  const size_t most_;
  const Tenants& tenants_;
  const bool is_stored_;
  mutable Mutex mu_;
  Models models_ ABSL_GUARDED_BY(mu_);                                // Each has versions, unless its index cannot be read.
  std::map<std::string, RetiredNames> retired_ ABSL_GUARDED_BY(mu_);  // By the prefix of the tenant's names.
};

}  // namespace gluond::server

#endif  // SERVER_SERVING_VERSION_TABLE_H_
