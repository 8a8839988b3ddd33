#include "server/serving/publisher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "server/custom/operator_owners.h"
#include "server/serving/batch_invariance.h"
#include "server/serving/names.h"

namespace gluond::server {
namespace {

// The turn of declarations, which concern all names. No model is served by this name.
constexpr char kDeclarations[] = "";

// The numbers of retired versions are lost with an index: the next ones keep away from them.
constexpr int64_t kGap = 1000;

// Whether the index is damaged or missing.
bool IsLost(const absl::Status& read) { return absl::IsDataLoss(read) || absl::IsNotFound(read); }

}  // namespace

Publisher::Publisher(Runner& runner, Devices& devices, std::unique_ptr<CheckpointStore> store, LogSink log, std::string leader)
    : runner_(runner),
      devices_(devices),
      store_(store == nullptr ? nullptr : std::make_unique<StoredVersions>(std::move(store))),
      log_(std::move(log)),
      leader_(std::move(leader)),
      lineage_(!leader_.empty()),
      turns_(runner),
      table_(runner.limits.max_served_versions, runner.tenants, store_ != nullptr) {}

Task<absl::StatusOr<ServedVersionPtr>> Publisher::Make(const std::string& name, int64_t number, ModelState state,
                                                       const ServingOptions& options, std::shared_ptr<Cancellation> cancellation) {
  const ServedVersion::Shared shared{runner_, devices_, alarm_};
  CO_ASSIGN_OR_RETURN(ServedVersionPtr made,
                      co_await ServedVersion::Create(shared, name, number, std::move(state), options, std::move(cancellation)));
  if (const absl::Status& why = made->why_not_rewritten(); !why.ok()) {
    log_(EventLine("version_not_rewritten", LogLevel::kWarning,
                   absl::StrCat("version ", number, " of '", name, "' computes its model's graph as it is: ", why.message())));
  }
  MutexLock lock(mu_);
  std::erase_if(made_, [](const auto& each) { return each.expired(); });
  made_.push_back(made);
  co_return made;
}

absl::Status Publisher::SaveIndex(const std::string& name, const Routes& routes) {
  const VersionIndex index = table_.NextIndex(name, routes);
  return store_ == nullptr ? absl::OkStatus() : store_->SaveIndex(name, index);
}

absl::Status Publisher::CheckLeads() const {
  if (leader_.empty()) return absl::OkStatus();
  return FailedPrecondition("this server follows ", leader_, " (--follow) and serves what is published there; publish, route and ",
                            "retire versions there");
}

// Publishing.

Task<absl::Status> Publisher::MakeAndKeep(const std::string& name, const VersionTable::Reserved& reserved, ModelState state,
                                          const ServingOptions& options, std::shared_ptr<Cancellation> cancellation) {
  CO_ASSIGN_OR_RETURN(ServedVersionPtr made, co_await Make(name, reserved.number, state, options, std::move(cancellation)));
  table_.SetServed(name, reserved.number, std::move(made));
  if (store_ != nullptr) {
    co_await PostedToDisk(runner_.dispatch);
    CO_RETURN_IF_ERROR(store_->SaveValues(name, reserved.number, std::move(state)));
  }
  const absl::Status saved = SaveIndex(name, reserved.routes);
  if (!saved.ok()) (void)store_->DeleteValues(name, reserved.number);
  co_return saved;
}

Task<absl::StatusOr<v1::ServedVersion>> Publisher::PublishNow(std::string name, ModelState state, VersionFacts facts,
                                                              std::vector<std::string> labels,
                                                              std::shared_ptr<Cancellation> cancellation,
                                                              std::optional<uint64_t> rewound_to, std::optional<int64_t> number) {
  CO_RETURN_IF_ERROR(CheckServedName(name, &runner_.tenants));
  for (const std::string& label : labels) CO_RETURN_IF_ERROR(CheckLabel(label));
  CO_ASSIGN_OR_RETURN(const Place* const place, devices_.Find(facts.options.device));
  facts.options.device = place->device.ToString();
  if (auto published = table_.FindPublished(name, facts, rewound_to)) co_return *std::move(published);
  CO_RETURN_IF_ERROR(CheckBatchInvariance(facts.options, state, *place));
  CO_ASSIGN_OR_RETURN(facts.options.operator_owners,
                      OwnersOf(state.definition.outputs, std::string(TenantPrefix(name)), devices_.custom_host()));
  CO_ASSIGN_OR_RETURN(const VersionTable::Reserved reserved, table_.Reserve(name, facts, labels, number));
  const absl::Status kept = co_await MakeAndKeep(name, reserved, std::move(state), facts.options, std::move(cancellation));
  co_return table_.EndPublish(name, reserved, kept);
}

void Publisher::Publish(const std::string& name, ModelState state, VersionFacts facts, std::vector<std::string> labels,
                        std::shared_ptr<Cancellation> cancellation, std::function<void(absl::StatusOr<v1::ServedVersion>)> done,
                        std::optional<uint64_t> rewound_to) {
  if (const absl::Status leads = CheckLeads(); !leads.ok()) return done(leads);
  const auto make = [this, name, kept = std::make_shared<ModelState>(std::move(state)), facts = std::move(facts),
                     labels = std::move(labels), cancellation = std::move(cancellation),
                     rewound_to] { return PublishNow(name, std::move(*kept), facts, labels, cancellation, rewound_to); };
  turns_.RunTask<absl::StatusOr<v1::ServedVersion>>(name, make, std::move(done));
}

// Routes.

void Publisher::Route(const std::string& name, VersionTable::Change change,
                      std::function<void(absl::StatusOr<VersionTable::Versions>)> done) {
  if (const absl::Status leads = CheckLeads(); !leads.ok()) return done(leads);
  turns_.Run(name, [this, name, change = std::move(change), done = std::move(done)] {
    absl::StatusOr<Routes> routes = table_.PlanRoutes(name, change);
    const absl::Status saved = routes.ok() ? SaveIndex(name, *routes) : routes.status();
    if (!saved.ok()) return done(saved);
    table_.SetRoutes(name, *std::move(routes));
    done(table_.List(name));
  });
}

// How versions end.

absl::Status Publisher::Forget(const std::string& name, int64_t number) {
  table_.Erase(name, number);
  if (store_ != nullptr) RETURN_IF_ERROR(store_->DeleteValues(name, number));
  return ForgetName(name);
}

absl::Status Publisher::ForgetName(const std::string& name) {
  MutexLock saving(retired_mu_);
  const std::optional<RetiredNames> names = table_.RetireName(name);
  if (!names.has_value()) return absl::OkStatus();
  if (store_ != nullptr) {
    RETURN_IF_ERROR(store_->SaveRetired(std::string(TenantPrefix(name)), *names));
    RETURN_IF_ERROR(store_->DeleteIndex(name));
  }
  table_.EraseName(name);
  return absl::OkStatus();
}

void Publisher::Retire(const std::string& name, int64_t number, const std::optional<std::string>& expected_etag, Done done) {
  const absl::Status leads = CheckLeads();
  leads.ok() ? RetireUnder(name, number, expected_etag, std::move(done)) : done(leads);
}

void Publisher::RetireUnder(const std::string& name, int64_t number, const std::optional<std::string>& expected_etag, Done done) {
  turns_.Run(name, [this, name, number, expected_etag, done = std::move(done)] {
    const absl::StatusOr<Routes> routes = table_.BeginRetire(name, number, expected_etag);
    if (!routes.ok()) return done(routes.status());
    const absl::StatusOr<ServedVersionPtr> version = table_.EndRetire(name, number, SaveIndex(name, *routes));
    if (!version.ok()) return done(version.status());
    const auto forget = [this, name, number, done] {
      turns_.Run(name, [this, name, number, done] { done(Forget(name, number)); });
    };
    *version == nullptr ? forget() : (*version)->Drain(forget);
  });
}

void Publisher::Unload(const std::string& name, Done done) {
  if (const absl::Status leads = CheckLeads(); !leads.ok()) return done(leads);
  turns_.Run(name, [this, name, done = std::move(done)] {
    if (store_ == nullptr) {
      return done(Unavailable("this server has no store (--store_dir): what it unloads it could not load again; ",
                              "RetireVersion ends a version for good"));
    }
    const auto leaving = table_.BeginUnload(name);
    if (!leaving.ok()) return done(leaving.status());
    // The last one to be drained, or this thread, ends the call.
    const std::shared_ptr<void> last(nullptr, [done](void*) { done(absl::OkStatus()); });
    for (const auto& [number, version] : *leaving) {
      version->Drain([this, name, number = number, drained = version.get(), last] { table_.EndUnload(name, number, drained); });
    }
  });
}

// Servers that follow each other.

absl::Status Publisher::CheckFollowable() const {
  if (store_ != nullptr) return absl::OkStatus();
  return FailedPrecondition("this server keeps no published versions, which others could follow; start it with --store_dir=FOLDER");
}

VersionTable::Indices Publisher::ListWithChecksums() const {
  VersionTable::Indices list;
  for (auto& [name, index] : table_.Published()) {
    bool all = true;
    for (auto& [number, facts] : index.versions) {
      const absl::StatusOr<uint32_t> checksum = store_->Checksum(name, number);
      all = all && checksum.ok();
      facts.checksum = checksum.value_or(0);
    }
    if (all) list[name] = index;
  }
  return list;
}

absl::StatusOr<std::unique_ptr<ReadableFile>> Publisher::OpenFile(const std::string& name, int64_t number, uint32_t checksum,
                                                                  const std::string& file) const {
  RETURN_IF_ERROR(CheckFollowable());
  return store_->OpenFile(name, number, checksum, file);
}

void Publisher::Adopt(const std::string& name, int64_t number, ModelState state, VersionFacts facts,
                      std::shared_ptr<Cancellation> cancellation, Done done) {
  if (!devices_.Find(facts.options.device).ok()) facts.options.device.clear();
  const auto make = [this, name, number, kept = std::make_shared<ModelState>(std::move(state)), facts = std::move(facts),
                     cancellation = std::move(cancellation)] {
    return PublishNow(name, std::move(*kept), facts, /*labels=*/{}, cancellation, /*rewound_to=*/{}, number);
  };
  turns_.RunTask<absl::StatusOr<v1::ServedVersion>>(
      name, make, [done = std::move(done)](const absl::StatusOr<v1::ServedVersion>& adopted) { done(adopted.status()); });
}

void Publisher::AdoptRoutes(const std::string& name, Routes routes, int64_t next, Done done) {
  turns_.Run(name, [this, name, routes = std::move(routes), next, done = std::move(done)] {
    if (const absl::Status raised = table_.RaiseNext(name, next); !raised.ok()) return done(raised);
    const absl::Status saved = SaveIndex(name, routes);
    if (saved.ok()) table_.SetRoutes(name, routes);
    done(saved);
  });
}

void Publisher::Drop(const std::string& name, int64_t number, Done done) {
  RetireUnder(name, number, /*expected_etag=*/std::nullopt, std::move(done));
}

std::vector<ServedVersionPtr> Publisher::All() const {
  std::vector<ServedVersionPtr> all;
  MutexLock lock(mu_);
  for (const auto& each : made_) {
    if (ServedVersionPtr version = each.lock()) all.push_back(std::move(version));
  }
  return all;
}

void Publisher::Hurry() {
  for (const ServedVersionPtr& version : All()) version->Hurry();
}

void Publisher::Stop() {
  for (const ServedVersionPtr& version : All()) version->Stop();
  turns_.Stop();
}

// How they come back.

Task<absl::Status> Publisher::LoadNow(std::string name) {
  CO_ASSIGN_OR_RETURN(const auto wanted, table_.BeginLoad(name));
  absl::Status result;
  for (const auto& [number, options] : wanted) {
    co_await PostedToDisk(runner_.dispatch);
    absl::StatusOr<ModelState> state = ReadValues(name, number);
    absl::StatusOr<ServedVersionPtr> made = nullptr;
    if (!state.ok()) made = state.status();
    if (state.ok()) {
      LogLostInvariance(name, number, *state, options);
      made = co_await Make(name, number, *std::move(state), options);
    }
    if (!made.ok()) result = Annotate(made.status(), absl::StrCat("version ", number));
    table_.SetLoaded(name, number, std::move(made));
  }
  co_return result;
}

// Another machine has promised it: a version goes on all the same, as its requests would rather be answered.
void Publisher::LogLostInvariance(const std::string& name, int64_t number, const ModelState& state,
                                  const ServingOptions& options) const {
  const absl::StatusOr<Place*> place = devices_.Find(options.device);
  if (!place.ok()) return;  // Make says so.
  const absl::Status holds = CheckBatchInvariance(options, state, **place);
  if (holds.ok()) return;
  log_(EventLine("batch_invariance_lost", LogLevel::kWarning,
                 absl::StrCat("version ", number, " of '", name, "' is served all the same: ", holds.message())));
}

absl::StatusOr<ModelState> Publisher::ReadValues(const std::string& name, int64_t number) const {
  const ScopedCustomHost host(devices_.custom_host_of(name));
  return store_->LoadValues(name, number, *devices_.host().allocator);
}

void Publisher::LoadAgain(const std::string& name, Done done) {
  turns_.RunTask<absl::Status>(
      name, [this, name] { return LoadNow(name); }, std::move(done));
}

void Publisher::LoadRetired() {
  const std::vector<std::string> tenants = store_->ListRetired().value_or(std::vector<std::string>());
  for (const std::string& tenant : tenants) {
    absl::StatusOr<RetiredNames> names = store_->LoadRetired(tenant);
    if (!names.ok()) {
      log_(EventLine("retired_numbers_lost", LogLevel::kError,
                     absl::StrCat("the last numbers of retired names are lost, and new names begin with ", kGap, ": ",
                                  names.status().message())));
      names = RetiredNames{kGap, {}};
    }
    table_.SetRetired(tenant, *std::move(names));
  }
}

void Publisher::LogFault(const std::string& what, const absl::Status& status) const {
  if (status.ok()) return;
  log_(EventLine("version_not_served", LogLevel::kError, absl::StrCat(what, ": ", status.message())));
}

void Publisher::Load(Loads& loads) {
  if (store_ == nullptr) return;
  LoadRetired();
  const absl::StatusOr<std::map<std::string, std::vector<int64_t>>> stored = store_->List();
  if (!stored.ok()) return LogFault("no published version can be loaded", stored.status());
  for (const auto& [name, numbers] : *stored) {
    if (!LoadIndex(name, numbers)) continue;
    loads.Add(
        name, [this, name = name] { return LoadInTurn(name); },
        [this, name = name](const absl::Status& loaded) {
          LogFault(absl::StrCat("'", name, "' is not served as it was"), loaded);
        });
  }
}

Task<absl::Status> Publisher::LoadInTurn(std::string name) {
  co_return co_await Callback<absl::Status>([&](Done done) { LoadAgain(name, std::move(done)); });
}

bool Publisher::LoadIndex(const std::string& name, const std::vector<int64_t>& numbers) {
  const ScopedAccount owner(runner_.tenants.AccountOf(name));
  absl::Status status;
  const VersionIndex index = ReadIndex(name, numbers, &status);
  LogFault(
      absl::StrCat(
          "the index of the versions of '", name, "' was not loaded",
          index.routes.are_lost
              ? ", and requests that name no version are UNAVAILABLE until RouteVersions sets the label `stable` or weights again"
              : ""),
      status);
  for (const auto& [number, facts] : index.versions) {
    Keep(facts.options.operator_owners, std::string(TenantPrefix(name)), devices_.custom_host());
  }
  const bool is_readable = status.ok() || IsLost(status);
  table_.Add(
      name, index,
      is_readable
          ? absl::OkStatus()
          : Annotate(status, absl::StrCat("the versions of '", name,
                                          "' are on the disk, and this server cannot read their index; choose another name")));
  if (!is_readable) return false;
  for (const int64_t number : numbers) {
    if (!index.versions.contains(number)) (void)store_->DeleteValues(name, number);
  }
  if (!index.versions.empty()) return true;
  LogFault(absl::StrCat("'", name, "' is not served as it was"), ForgetName(name));
  return false;
}

VersionIndex Publisher::ReadIndex(const std::string& name, const std::vector<int64_t>& numbers, absl::Status* status) const {
  absl::StatusOr<VersionIndex> read = store_->LoadIndex(name);
  *status = read.status();
  VersionIndex index = read.ok() ? *std::move(read) : VersionIndex();
  for (const int64_t number : IsLost(*status) ? numbers : std::vector<int64_t>()) {
    index.versions[number].options.device = devices_.offered().front()->device.ToString();
    index.next = number + kGap;
    index.routes.are_lost = true;
  }
  const auto is_gone = [&index](int64_t number) { return !index.versions.contains(number); };
  std::erase_if(index.routes.labels, [&](const auto& each) { return is_gone(each.second); });
  std::erase_if(index.routes.weights, [&](const auto& each) { return is_gone(each.first); });
  return index;
}

// The names that --serve=FILE owns.

absl::StatusOr<VersionTable::Models> Publisher::Plan(const Declaration& declaration, const CheckpointStore* checkpoints) const {
  VersionTable::Models planned;
  for (const auto& [name, declared] : declaration) {
    VersionTable::Model& model = planned[name];
    model.is_declared = true;
    model.routes = declared.routes;
    for (const auto& [number, wanted] : declared.versions) {
      if (checkpoints == nullptr) {
        return FailedPrecondition(wanted.place, ": this server keeps no checkpoints; start it with --store_dir=FOLDER");
      }
      VersionTable::Version& version = model.versions[number];
      version.state = v1::ServedVersion::READY;
      version.facts.source = wanted.checkpoint;
      version.facts.options = wanted.options;
      ASSIGN_OR_RETURN(const Place* const place, Annotate(devices_.Find(wanted.options.device), wanted.place));
      version.facts.options.device = place->device.ToString();
      ASSIGN_OR_RETURN(version.revision, Annotate(checkpoints->Revision(wanted.checkpoint), wanted.place));
    }
  }
  return table_.Plan(std::move(planned));
}

Task<absl::StatusOr<ServedVersionPtr>> Publisher::MakeDeclared(const std::string& name, int64_t number, const VersionFacts& facts,
                                                               const CheckpointStore& checkpoints) {
  co_await PostedToDisk(runner_.dispatch, runner_.tenants.AccountOf(name));
  CO_ASSIGN_OR_RETURN(ModelState state, ReadCheckpoint(facts.source, checkpoints));
  CO_ASSIGN_OR_RETURN(const Place* const place, devices_.Find(facts.options.device));
  CO_RETURN_IF_ERROR(CheckBatchInvariance(facts.options, state, *place));
  co_return co_await Make(name, number, std::move(state), facts.options);
}

absl::StatusOr<ModelState> Publisher::ReadCheckpoint(const std::string& name, const CheckpointStore& checkpoints) const {
  const ScopedCustomHost host(devices_.custom_host_of(name));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, checkpoints.Load(name, *devices_.host().allocator));
  return std::move(checkpoint.model);
}

Task<absl::StatusOr<Declaration>> Publisher::DeclareNow(ReadDeclaration read, const CheckpointStore* checkpoints) {
  CO_ASSIGN_OR_RETURN(Declaration declaration, read());
  CO_ASSIGN_OR_RETURN(VersionTable::Models planned, Plan(declaration, checkpoints));
  for (auto& [name, model] : planned) {
    for (auto& [number, version] : model.versions) {
      if (version.served != nullptr) continue;
      absl::StatusOr<ServedVersionPtr> made = co_await MakeDeclared(name, number, version.facts, *checkpoints);
      CO_RETURN_IF_ERROR(Annotate(made.status(), declaration.at(name).versions.at(number).place));
      version.served = *std::move(made);
    }
  }
  CO_ASSIGN_OR_RETURN(const std::vector<ServedVersionPtr> leaving, table_.Replace(std::move(planned)));
  // Each answers the requests that have chosen it. A lane's thread answers the last one, and is not to free the memory.
  for (const ServedVersionPtr& version : leaving) {
    version->Drain([this, version] { runner_.dispatch.Run(Weight::kHeavy, [version] {}); });
  }
  co_return declaration;
}

void Publisher::Declare(ReadDeclaration read, const CheckpointStore* checkpoints,
                        std::function<void(absl::StatusOr<Declaration>)> done) {
  turns_.RunTask<absl::StatusOr<Declaration>>(
      kDeclarations, [this, read = std::move(read), checkpoints] { return DeclareNow(read, checkpoints); }, std::move(done));
}

}  // namespace gluond::server
