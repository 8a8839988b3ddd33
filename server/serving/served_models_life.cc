// ServedModels: how versions end, and how they come back.

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "server/custom/operator_owners.h"
#include "server/serving/batch_invariance.h"
#include "server/serving/served_models.h"

namespace gluond::server {
namespace {

// The numbers of retired versions are lost with an index: the next ones keep away from them.
constexpr int64_t kGap = 1000;

// Whether the index is damaged or missing.
bool IsLost(const absl::Status& read) { return absl::IsDataLoss(read) || absl::IsNotFound(read); }

}  // namespace

absl::StatusOr<ServedVersionPtr> ServedModels::TakeOut(const std::string& name, int64_t number,
                                                       const std::optional<std::string>& expected_etag) {
  Routes routes;
  {
    MutexLock lock(mu_);
    ASSIGN_OR_RETURN(const Model* const model, FindModel(name));
    RETURN_IF_ERROR(CheckUndeclared(*model, name));
    RETURN_IF_ERROR(CheckEtag(*model, name, expected_etag));
    RETURN_IF_ERROR(FindVersion(*model, name, number).status());
    routes = model->routes;
  }
  for (const auto& [label, labelled] : routes.labels) {
    if (labelled != number) continue;
    return absl::FailedPreconditionError(absl::StrCat("version ", number, " of '", name, "' has the label '", label,
                                                      "'; give it to another version first (RouteVersions)"));
  }
  if (routes.weights.contains(number)) {
    return absl::FailedPreconditionError(absl::StrCat("version ", number, " of '", name, "' gets a part of the requests by "
                                                      "its weight; change the weights first (RouteVersions)"));
  }
  const auto retire = [&](bool retiring) {
    MutexLock lock(mu_);
    models_.at(name).versions.at(number).retiring = retiring;
  };
  retire(true);
  if (const absl::Status saved = SaveIndex(name, routes); !saved.ok()) {
    retire(false);
    return saved;
  }
  MutexLock lock(mu_);
  Version& version = models_.at(name).versions.at(number);
  version.state = v1::ServedVersion::UNLOADING;
  return version.served;
}

absl::Status ServedModels::Forget(const std::string& name, int64_t number) {
  {
    MutexLock lock(mu_);
    models_.at(name).versions.erase(number);
  }
  if (store_ != nullptr) RETURN_IF_ERROR(store_->DeleteValues(name, number));
  return ForgetName(name);
}

absl::Status ServedModels::ForgetName(const std::string& name) {
  const std::string tenant(TenantPrefix(name));
  const auto is_empty = [](const Model& model) { return model.versions.empty() && !model.is_declared && model.status.ok(); };
  MutexLock saving(retired_mu_);
  RetiredNames names;
  {
    MutexLock lock(mu_);
    const auto found = models_.find(name);
    if (found == models_.end() || !is_empty(found->second)) return absl::OkStatus();
    retired_[tenant].Add(name, found->second.next);
    names = retired_[tenant];
  }
  if (store_ != nullptr) {
    RETURN_IF_ERROR(store_->SaveRetired(tenant, names));
    RETURN_IF_ERROR(store_->DeleteIndex(name));
  }
  MutexLock lock(mu_);
  const auto found = models_.find(name);
  if (found != models_.end() && is_empty(found->second)) models_.erase(found);  // It may be declared meanwhile.
  return absl::OkStatus();
}

void ServedModels::Retire(const std::string& name, int64_t number, const std::optional<std::string>& expected_etag, Done done) {
  turns_.Run(name, [this, name, number, expected_etag, done = std::move(done)] {
    const absl::StatusOr<ServedVersionPtr> version = TakeOut(name, number, expected_etag);
    if (!version.ok()) return done(version.status());
    const auto forget = [this, name, number, done] {
      turns_.Run(name, [this, name, number, done] { done(Forget(name, number)); });
    };
    *version == nullptr ? forget() : (*version)->Drain(forget);
  });
}

void ServedModels::Unload(const std::string& name, Done done) {
  turns_.Run(name, [this, name, done = std::move(done)] {
    if (store_ == nullptr) {
      return done(absl::UnavailableError("this server has no store (--store_dir): what it unloads it could not load again; "
                                         "RetireVersion ends a version for good"));
    }
    std::map<int64_t, ServedVersionPtr> leaving;
    {
      MutexLock lock(mu_);
      const absl::StatusOr<Model*> model = FindModel(name);
      if (!model.ok()) return done(model.status());
      if (const absl::Status status = CheckUndeclared(**model, name); !status.ok()) return done(status);
      for (auto& [number, version] : (*model)->versions) {
        if (version.state != v1::ServedVersion::READY || version.retiring) continue;
        version.state = v1::ServedVersion::UNLOADING;
        leaving[number] = version.served;
      }
    }
    // The last one to be drained, or this thread, ends the call.
    const auto end = std::make_shared<std::function<void()>>([done] { done(absl::OkStatus()); });
    const std::shared_ptr<void> last(nullptr, [end](void*) { (*end)(); });
    for (const auto& [number, version] : leaving) {
      version->Drain([this, name, number = number, drained = version.get(), last] {
        MutexLock lock(mu_);
        // It may have been retired, or loaded again, meanwhile.
        const auto model = models_.find(name);
        if (model == models_.end()) return;
        const auto found = model->second.versions.find(number);
        if (found == model->second.versions.end() || found->second.retiring) return;
        Version& version = found->second;
        if (version.state != v1::ServedVersion::UNLOADING || version.served.get() != drained) return;
        version.served = nullptr;
        version.state = v1::ServedVersion::UNAVAILABLE;
        version.reason = "it was unloaded";
      });
    }
  });
}

std::vector<ServedVersionPtr> ServedModels::All() const {
  std::vector<ServedVersionPtr> all;
  MutexLock lock(mu_);
  for (const auto& each : all_) {
    if (ServedVersionPtr version = each.lock()) all.push_back(std::move(version));
  }
  return all;
}

void ServedModels::Hurry() {
  for (const ServedVersionPtr& version : All()) version->Hurry();
}

void ServedModels::Stop() {
  for (const ServedVersionPtr& version : All()) version->Stop();
  turns_.Stop();
}

Task<absl::Status> ServedModels::LoadNow(std::string name) {
  std::map<int64_t, ServingOptions> wanted;
  {
    MutexLock lock(mu_);
    CO_ASSIGN_OR_RETURN(Model* const model, FindModel(name));
    for (auto& [number, version] : model->versions) {
      if (version.retiring) continue;
      if (version.state == v1::ServedVersion::UNLOADING) {  // It was not drained.
        version.state = v1::ServedVersion::READY;
        version.served->TakeTime();
      }
      if (version.state == v1::ServedVersion::READY) continue;
      version.state = v1::ServedVersion::LOADING;
      version.reason.clear();
      wanted[number] = version.facts.options;
    }
  }
  absl::Status result;
  for (const auto& [number, options] : wanted) {
    co_await PostedToDisk(runner_.dispatch);
    absl::StatusOr<ModelState> state = ReadValues(name, number);
    absl::Status status = state.status();
    if (status.ok()) LogLostInvariance(name, number, *state, options);
    if (status.ok()) status = co_await Serve(name, number, *std::move(state), options);
    MutexLock lock(mu_);
    Version& version = models_.at(name).versions.at(number);
    version.state = status.ok() ? v1::ServedVersion::READY : v1::ServedVersion::UNAVAILABLE;
    version.reason = std::string(status.message());
    if (!status.ok()) result = Annotate(status, absl::StrCat("version ", number));
  }
  co_return result;
}

// Another machine has promised it: a version goes on all the same, as its requests would rather be answered.
void ServedModels::LogLostInvariance(const std::string& name, int64_t number, const ModelState& state,
                                     const ServingOptions& options) const {
  const absl::StatusOr<Place*> place = devices_.Find(options.device);
  if (!place.ok()) return;  // Serve says so.
  const absl::Status holds = CheckBatchInvariance(options, state, **place);
  if (holds.ok()) return;
  log_(EventLine("batch_invariance_lost", LogLevel::kWarning,
                 absl::StrCat("version ", number, " of '", name, "' is served all the same: ", holds.message())));
}

absl::StatusOr<ModelState> ServedModels::ReadValues(const std::string& name, int64_t number) const {
  const CustomHostPtr custom_host = devices_.custom_host_of(name);
  const ScopedCustomHost host(custom_host);
  return store_->LoadValues(name, number, *devices_.host().allocator);
}

void ServedModels::LoadAgain(const std::string& name, Done done) {
  turns_.RunTask<absl::Status>(name, [this, name] { return LoadNow(name); }, std::move(done));
}

void ServedModels::LoadRetired() {
  const absl::StatusOr<std::vector<std::string>> tenants = store_->ListRetired();
  for (const std::string& tenant : tenants.ok() ? *tenants : std::vector<std::string>()) {
    absl::StatusOr<RetiredNames> names = store_->LoadRetired(tenant);
    if (!names.ok()) {
      log_(EventLine("retired_numbers_lost", LogLevel::kError,
                     absl::StrCat("the last numbers of retired names are lost, and new names begin with ", kGap, ": ",
                                  names.status().message())));
      names = RetiredNames{kGap, {}};
    }
    MutexLock lock(mu_);
    retired_[tenant] = *std::move(names);
  }
}

void ServedModels::LogFault(const std::string& what, const absl::Status& status) const {
  log_(EventLine("version_not_served", LogLevel::kError, absl::StrCat(what, ": ", status.message())));
}

void ServedModels::Load(Loads& loads) {
  if (store_ == nullptr) return;
  LoadRetired();
  const absl::StatusOr<std::map<std::string, std::vector<int64_t>>> stored = store_->List();
  if (!stored.ok()) return LogFault("no published version can be loaded", stored.status());
  for (const auto& [name, numbers] : *stored) {
    if (!LoadIndex(name, numbers)) continue;
    loads.Add(name, [this, name = name] { return LoadInTurn(name); }, [this, name = name](const absl::Status& loaded) {
      if (!loaded.ok()) LogFault(absl::StrCat("'", name, "' is not served as it was"), loaded);
    });
  }
}

Task<absl::Status> ServedModels::LoadInTurn(std::string name) {
  co_return co_await Callback<absl::Status>([&](Done done) { LoadAgain(name, std::move(done)); });
}

bool ServedModels::LoadIndex(const std::string& name, const std::vector<int64_t>& numbers) {
  const ScopedAccount owner(runner_.tenants.AccountOf(name));
  absl::Status status;
  const VersionIndex index = ReadIndex(name, numbers, &status);
  if (!status.ok()) {
    LogFault(absl::StrCat("the index of the versions of '", name, "' was not loaded",
                          index.routes.are_lost ? ", and requests that name no version are UNAVAILABLE until RouteVersions "
                                                  "sets the label `stable` or weights again" : ""), status);
  }
  {
    MutexLock lock(mu_);
    Model& model = models_[name];
    model.next = index.next;
    model.revision = index.revision;
    model.routes = index.routes;
    for (const auto& [number, facts] : index.versions) {
      Keep(facts.options.operator_owners, std::string(TenantPrefix(name)), devices_.custom_host());
      model.versions[number].facts = facts;
    }
    if (!status.ok() && !IsLost(status)) {
      model.status = Annotate(status, absl::StrCat("the versions of '", name, "' are on the disk, and this server cannot "
                                                   "read their index; choose another name"));
      return false;
    }
  }
  for (const int64_t number : numbers) {
    if (!index.versions.contains(number)) (void)store_->DeleteValues(name, number);
  }
  if (!index.versions.empty()) return true;
  if (const absl::Status forgotten = ForgetName(name); !forgotten.ok()) {
    LogFault(absl::StrCat("'", name, "' is not served as it was"), forgotten);
  }
  return false;
}

VersionIndex ServedModels::ReadIndex(const std::string& name, const std::vector<int64_t>& numbers,
                                     absl::Status* status) const {
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

}  // namespace gluond::server
