// ServedModels: the names that --serve=FILE owns.

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/serving/batch_invariance.h"
#include "server/serving/served_models.h"

namespace gluond::server {
namespace {

// The turn of declarations, which concern all names. No model is served by this name.
constexpr char kDeclarations[] = "";

}  // namespace

absl::Status ServedModels::CheckUndeclared(const Model& model, const std::string& name) {
  if (!model.is_declared) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("'", name, "' is declared in the server's file --serve; change the file, "
                                                    "and have it read again by ReloadServing or SIGHUP, or take another "
                                                    "name"));
}

absl::Status ServedModels::CheckDeclarable(const Models& planned) const {
  const auto most = static_cast<size_t>(runner_.limits.max_served_versions);
  size_t count = 0;
  for (const auto& [name, model] : models_) {
    if (model.is_declared) continue;
    count += model.versions.size();
    const auto found = planned.find(name);
    if (found == planned.end()) continue;
    RETURN_IF_ERROR(model.status);
    if (model.versions.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "'", name, "' is declared, and it has ", model.versions.size(), " published versions; retire them (RetireVersion), "
        "or declare another name"));
  }
  for (const auto& [name, model] : planned) count += model.versions.size();
  if (count <= most) return absl::OkStatus();
  return OverLimit("--max_served_versions", "the server would have ", count, " versions of models, the limit of "
                   "--max_served_versions is ", most);
}

absl::StatusOr<ServedModels::Models> ServedModels::Plan(const Declaration& declaration,
                                                        const CheckpointStore* checkpoints) const {
  Models planned;
  for (const auto& [name, declared] : declaration) {
    Model& model = planned[name];
    model.is_declared = true;
    model.routes = declared.routes;
    for (const auto& [number, wanted] : declared.versions) {
      if (checkpoints == nullptr) {
        return absl::FailedPreconditionError(absl::StrCat(wanted.place, ": this server keeps no checkpoints; start it with "
                                                                        "--store_dir=FOLDER"));
      }
      Version& version = model.versions[number];
      version.state = v1::ServedVersion::READY;
      version.facts.source = wanted.checkpoint;
      version.facts.options = wanted.options;
      const absl::StatusOr<Place*> place = devices_.Find(wanted.options.device);
      if (!place.ok()) return Annotate(place.status(), wanted.place);
      version.facts.options.device = (*place)->device.ToString();
      absl::StatusOr<std::string> revision = checkpoints->Revision(wanted.checkpoint);
      if (!revision.ok()) return Annotate(revision.status(), wanted.place);
      version.revision = *std::move(revision);
    }
  }
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckDeclarable(planned));
  for (auto& [name, model] : planned) {
    const auto old = models_.find(name);
    if (old == models_.end() || !old->second.is_declared) continue;
    for (auto& [number, version] : model.versions) {
      const auto found = old->second.versions.find(number);
      if (found == old->second.versions.end()) continue;
      const Version& same = found->second;
      if (same.facts.source == version.facts.source && same.facts.options == version.facts.options &&
          same.revision == version.revision) {
        version = same;
      }
    }
  }
  return planned;
}

Task<absl::Status> ServedModels::Make(const std::string& name, int64_t number, const CheckpointStore& checkpoints,
                                      Version* version) {
  co_await PostedToDisk(runner_.dispatch, runner_.tenants.AccountOf(name));
  CO_ASSIGN_OR_RETURN(ModelState state, ReadCheckpoint(version->facts.source, checkpoints));
  CO_ASSIGN_OR_RETURN(const Place* const place, devices_.Find(version->facts.options.device));
  CO_RETURN_IF_ERROR(CheckBatchInvariance(version->facts.options, state, *place));
  const ServedVersion::Shared shared{runner_, devices_, alarm_};
  CO_ASSIGN_OR_RETURN(version->served, co_await ServedVersion::Create(shared, name, number, std::move(state),
                                                                      version->facts.options));
  MutexLock lock(mu_);
  Remember(version->served);
  co_return absl::OkStatus();
}

absl::StatusOr<ModelState> ServedModels::ReadCheckpoint(const std::string& name, const CheckpointStore& checkpoints) const {
  const CustomHostPtr custom_host = devices_.custom_host_of(name);
  const ScopedCustomHost host(custom_host);
  ASSIGN_OR_RETURN(Checkpoint checkpoint, checkpoints.Load(name, *devices_.host().allocator));
  return std::move(checkpoint.model);
}

absl::StatusOr<std::vector<ServedVersionPtr>> ServedModels::Replace(Models planned) {
  std::vector<ServedVersionPtr> leaving;
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckDeclarable(planned));  // A name may have been published meanwhile.
  for (auto it = models_.begin(); it != models_.end();) {
    Model& old = it->second;
    if (!old.is_declared) {
      ++it;
      continue;
    }
    const auto next = planned.find(it->first);
    for (auto& [number, version] : old.versions) {
      const bool goes_on = next != planned.end() && next->second.versions.contains(number) &&
                           next->second.versions.at(number).served == version.served;
      if (!goes_on) leaving.push_back(std::move(version.served));
    }
    it = models_.erase(it);
  }
  for (auto& [name, model] : planned) models_[name] = std::move(model);
  return leaving;
}

Task<absl::StatusOr<Declaration>> ServedModels::DeclareNow(std::function<absl::StatusOr<Declaration>()> read,
                                                           const CheckpointStore* checkpoints) {
  CO_ASSIGN_OR_RETURN(Declaration declaration, read());
  CO_ASSIGN_OR_RETURN(Models planned, Plan(declaration, checkpoints));
  for (auto& [name, model] : planned) {
    for (auto& [number, version] : model.versions) {
      if (version.served != nullptr) continue;
      const absl::Status made = co_await Make(name, number, *checkpoints, &version);
      CO_RETURN_IF_ERROR(Annotate(made, declaration.at(name).versions.at(number).place));
    }
  }
  CO_ASSIGN_OR_RETURN(const std::vector<ServedVersionPtr> leaving, Replace(std::move(planned)));
  // Each answers the requests that have chosen it. A lane's thread answers the last one, and is not to free the memory.
  for (const ServedVersionPtr& version : leaving) {
    version->Drain([this, version] { runner_.dispatch.Run(Weight::kHeavy, [version] {}); });
  }
  co_return declaration;
}

void ServedModels::Declare(std::function<absl::StatusOr<Declaration>()> read, const CheckpointStore* checkpoints,
                           std::function<void(absl::StatusOr<Declaration>)> done) {
  turns_.RunTask<absl::StatusOr<Declaration>>(
      kDeclarations, [this, read = std::move(read), checkpoints] { return DeclareNow(read, checkpoints); }, std::move(done));
}

}  // namespace gluond::server
