#include "server/serving/version_table.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/tenant_name.h"
#include "server/codec/duration.h"
#include "server/serving/names.h"
#include "server/serving/options_codec.h"
#include "server/serving/place_of_id.h"

namespace gluond::server {
namespace {

// The number that a version's name is, as answers tell it.
std::optional<int64_t> ReadNumber(absl::string_view version) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(version, &number) || absl::StrCat(number) != version) return std::nullopt;
  return number;
}

absl::Status CheckCount(const std::string& name, const Routes& routes) {
  if (routes.labels.size() <= kMostLabels) return absl::OkStatus();
  return Invalid("'", name, "' would have more than ", kMostLabels, " labels");
}

using Model = VersionTable::Model;
using Version = VersionTable::Version;

// Whether it has versions, but for those that leave for good.
bool IsServed(const Model& model) {
  return absl::c_any_of(model.versions, [](const auto& each) { return !each.second.retiring; });
}

absl::Status NoVersion(const Model& model, const std::string& name, absl::string_view version) {
  std::vector<std::string> known;
  for (const auto& [number, each] : model.versions) {
    if (!each.retiring) known.push_back(absl::StrCat(number));
  }
  for (const auto& [label, number] : model.routes.labels) known.push_back(label);
  return NoSuch("version", Excerpt(version), "'", name, "' has no version '", Excerpt(version), "'; there are ",
                absl::StrJoin(known, ", "));
}

// Whether the table has no reason to keep the model.
bool IsEmpty(const Model& model) { return model.versions.empty() && !model.is_declared && model.status.ok(); }

// NOT_FOUND: there is none, or it leaves for good.
absl::StatusOr<const Version*> FindVersion(const Model& model, const std::string& name, int64_t number) {
  const auto found = model.versions.find(number);
  if (found == model.versions.end() || found->second.retiring) return NoVersion(model, name, absl::StrCat(number));
  return &found->second;
}

// The number of the version that a request gets. Requires: there is a version.
absl::StatusOr<int64_t> NumberOf(const Model& model, const std::string& name, const std::string& version,
                                 std::optional<absl::string_view> id) {
  if (const std::optional<int64_t> number = ReadNumber(version); number.has_value()) return *number;
  if (!version.empty()) {
    const auto label = model.routes.labels.find(version);
    return label == model.routes.labels.end() ? NoVersion(model, name, version) : absl::StatusOr<int64_t>(label->second);
  }
  uint64_t sum = 0;
  for (const auto& [number, weight] : model.routes.weights) sum += weight;
  if (sum > 0 && id.has_value()) {
    static std::atomic<uint64_t> nameless = 0;
    uint64_t place = (id->empty() ? Mixed(nameless++) : PlaceOfId(*id)) % sum;
    for (const auto& [number, weight] : model.routes.weights) {
      if (place < weight) return number;
      place -= weight;
    }
  }
  if (const auto stable = model.routes.labels.find(kStable); stable != model.routes.labels.end()) return stable->second;
  if (model.routes.are_lost) {
    return Unavailable(
        "the index of the versions of '", name,
        "' was damaged or missing, and its labels and weights are lost; set the label `stable` or weights again (RouteVersions), "
        "or name a version's number");
  }
  std::optional<int64_t> last;  // The highest one, as long as none is ready.
  for (auto it = model.versions.rbegin(); it != model.versions.rend(); ++it) {
    if (it->second.retiring) continue;
    if (it->second.state == v1::ServedVersion::READY) return it->first;
    if (!last.has_value()) last = it->first;
  }
  return *last;  // FindModel saw one.
}

// Another text after each change; no later version of the name has it again.
std::string EtagOf(const Model& model) { return absl::StrCat(model.next, ".", model.revision); }

// ABORTED, with the reason VERSION_CHANGED: the model has another etag.
absl::Status CheckEtag(const Model& model, const std::string& name, const std::optional<std::string>& expected) {
  if (!expected.has_value() || *expected == EtagOf(model)) return absl::OkStatus();
  return WithInfo(absl::AbortedError(
                      absl::StrCat("the versions of '", name,
                                   "', or the routes to them, are others by now than those of the expected etag; list them again")),
                  reason::kVersionChanged, {{"etag", EtagOf(model)}});
}

// FAILED_PRECONDITION: the model is declared.
absl::Status CheckUndeclared(const Model& model, const std::string& name) {
  if (!model.is_declared) return absl::OkStatus();
  return FailedPrecondition(
      "'", name,
      "' is declared in the server's file --serve; change the file, and have it read again by ReloadServing or SIGHUP, or take "
      "another name");
}

}  // namespace

// Look-ups.

absl::StatusOr<const VersionTable::Model*> VersionTable::FindModel(const std::string& name) const {
  const auto found = models_.find(name);
  if (found == models_.end() || (!IsServed(found->second) && found->second.status.ok())) {
    std::vector<std::string> names;
    for (const auto& [each, model] : models_) {
      if (TenantPrefix(each) == TenantPrefix(name) && IsServed(model)) names.push_back(each);
    }
    return NoSuch("served model", Excerpt(name), "no model is served as '", Excerpt(name), "'", DidYouMean(name, names),
                  " (PublishModel makes a version of a model)");
  }
  RETURN_IF_ERROR(found->second.status);
  return &found->second;
}

absl::StatusOr<ServedVersionPtr> VersionTable::Choose(const std::string& name, const std::string& version,
                                                      std::optional<absl::string_view> id) const {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Model* const model, FindModel(name));
  ASSIGN_OR_RETURN(const int64_t number, NumberOf(*model, name, version, id));
  ASSIGN_OR_RETURN(const Version* const found, FindVersion(*model, name, number));
  if (found->state == v1::ServedVersion::READY) return found->served;
  if (found->state == v1::ServedVersion::LOADING) {
    return WithInfo(Unavailable("version ", number, " of '", name, "' is being loaded; try again in a moment"), reason::kLoading);
  }
  return Unavailable("version ", number, " of '", name, "' is ", v1::ServedVersion::State_Name(found->state),
                     found->reason.empty() ? "" : absl::StrCat(": ", found->reason));
}

std::vector<std::pair<std::string, ServedVersionPtr>> VersionTable::Ready(const std::string& name) const {
  std::vector<std::pair<std::string, ServedVersionPtr>> ready;
  MutexLock lock(mu_);
  for (const auto& [each, model] : models_) {
    if (!name.empty() && each != name) continue;
    for (const auto& [number, version] : model.versions) {
      if (version.state == v1::ServedVersion::READY) ready.emplace_back(each, version.served);
    }
  }
  return ready;
}

v1::ServedVersion VersionTable::Describe(const std::string& name, const Model& model, int64_t number) const {
  const Version& version = model.versions.at(number);
  v1::ServedVersion proto;
  proto.set_served(name);
  proto.set_version(number);
  proto.set_state(version.state);
  proto.set_reason(version.reason);
  for (const auto& [label, labelled] : model.routes.labels) {
    if (labelled == number) proto.add_labels(label);
  }
  const auto weight = model.routes.weights.find(number);
  proto.set_weight(weight == model.routes.weights.end() ? 0 : weight->second);
  proto.set_source(version.facts.source);
  proto.set_source_version(version.facts.source_version);
  SetTime(version.facts.created, proto.mutable_created());
  proto.set_stored(is_stored_ || model.is_declared);
  proto.set_declared(model.is_declared);
  proto.set_etag(EtagOf(model));
  ToProto(version.facts.options, proto.mutable_options());
  if (version.served == nullptr) return proto;
  proto.set_tensor_bytes(version.served->tensor_bytes());
  const Times success = version.served->statistics().success();
  proto.set_requests(static_cast<int64_t>(success.count));
  ToProto(success.sum, proto.mutable_time());
  return proto;
}

VersionTable::Versions VersionTable::List(const std::string& name) const {
  Versions list;
  MutexLock lock(mu_);
  for (const auto& [each, model] : models_) {
    if (!name.empty() && each != name) continue;
    for (const auto& [number, version] : model.versions) list.push_back(Describe(each, model, number));
  }
  return list;
}

VersionTable::Indices VersionTable::Published() const {
  Indices published;
  MutexLock lock(mu_);
  for (const auto& [tenant, names] : retired_) {
    for (const auto& [name, next] : names.next) published[name].next = names.NextOf(name);
  }
  for (const auto& [name, model] : models_) {
    published.erase(name);
    if (model.is_declared || !model.status.ok() || model.routes.are_lost) continue;
    VersionIndex& index = published[name];
    index = {model.next, model.revision, {}, model.routes};
    for (const auto& [number, version] : model.versions) {
      if (version.is_new) index.next = std::min(index.next, number);
      if (!version.retiring && !version.is_new) index.versions[number] = version.facts;
    }
  }
  return published;
}

// Publishing.

std::optional<v1::ServedVersion> VersionTable::FindPublished(const std::string& name, const VersionFacts& facts,
                                                             std::optional<uint64_t> rewound_to) const {
  const auto is_it = [&](const Version& each) {
    ServingOptions options = each.facts.options;
    options.operator_owners = facts.options.operator_owners;  // They were settled then, whoever shares these now.
    return !each.retiring && each.facts.number == facts.number && each.facts.client == facts.client &&
           each.facts.source == facts.source && options == facts.options && each.facts.source_version >= *rewound_to;
  };
  MutexLock lock(mu_);
  const auto model = models_.find(name);
  if (facts.number == 0 || !rewound_to.has_value() || model == models_.end()) return std::nullopt;
  for (const auto& [number, version] : model->second.versions) {
    if (is_it(version)) return Describe(name, model->second, number);
  }
  return std::nullopt;
}

absl::StatusOr<VersionTable::Reserved> VersionTable::Reserve(const std::string& name, const VersionFacts& facts,
                                                             const std::vector<std::string>& labels,
                                                             std::optional<int64_t> number) {
  MutexLock lock(mu_);
  size_t count = 0;
  int64_t of_tenant = 0;
  for (const auto& [each, model] : models_) {
    count += model.versions.size();
    if (TenantPrefix(each) == TenantPrefix(name)) of_tenant += static_cast<int64_t>(model.versions.size());
  }
  RETURN_IF_ERROR(tenants_.CheckCount(name, "version", &Quotas::versions, of_tenant));
  if (count >= most_) {
    return OverLimit("--max_served_versions", "the server has ", count,
                     " versions of models, the limit of --max_served_versions; retire one");
  }
  Model model;
  model.next = retired_[std::string(TenantPrefix(name))].NextOf(name);
  if (const auto found = models_.find(name); found != models_.end()) model = found->second;
  RETURN_IF_ERROR(model.status);
  RETURN_IF_ERROR(CheckUndeclared(model, name));
  Reserved reserved{number.value_or(model.next), model.routes, model.next};
  if (model.versions.contains(reserved.number)) {
    return absl::AlreadyExistsError(absl::StrCat("there is a version ", reserved.number, " of '", name, "' already"));
  }
  model.next = std::max(model.next, reserved.number + 1);
  Version& version = model.versions[reserved.number];
  version.facts = facts;
  version.is_new = true;
  for (const std::string& label : labels) reserved.routes.labels[label] = reserved.number;
  RETURN_IF_ERROR(CheckCount(name, reserved.routes));
  models_[name] = std::move(model);
  return reserved;
}

absl::StatusOr<v1::ServedVersion> VersionTable::EndPublish(const std::string& name, const Reserved& reserved,
                                                           const absl::Status& kept) {
  MutexLock lock(mu_);
  Model& model = models_.at(name);
  if (!kept.ok()) {
    model.versions.erase(reserved.number);
    model.next = reserved.next_before;
    if (model.versions.empty()) models_.erase(name);
    return kept;
  }
  model.routes = reserved.routes;
  model.versions.at(reserved.number).state = v1::ServedVersion::READY;
  model.versions.at(reserved.number).is_new = false;
  return Describe(name, model, reserved.number);
}

void VersionTable::SetServed(const std::string& name, int64_t number, ServedVersionPtr served) {
  MutexLock lock(mu_);
  models_.at(name).versions.at(number).served = std::move(served);
}

void VersionTable::SetLoaded(const std::string& name, int64_t number, absl::StatusOr<ServedVersionPtr> loaded) {
  MutexLock lock(mu_);
  Version& version = models_.at(name).versions.at(number);
  version.state = loaded.ok() ? v1::ServedVersion::READY : v1::ServedVersion::UNAVAILABLE;
  version.reason = std::string(loaded.status().message());
  if (loaded.ok()) version.served = *std::move(loaded);
}

void VersionTable::Add(const std::string& name, const VersionIndex& index, absl::Status status) {
  MutexLock lock(mu_);
  Model& model = models_[name];
  model.status = std::move(status);
  model.next = index.next;
  model.revision = index.revision;
  model.routes = index.routes;
  for (const auto& [number, facts] : index.versions) model.versions[number].facts = facts;
}

// Routes.

absl::StatusOr<Routes> VersionTable::PlanRoutes(const std::string& name, const Change& change) const {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Model* const model, FindModel(name));
  RETURN_IF_ERROR(CheckUndeclared(*model, name));
  RETURN_IF_ERROR(CheckEtag(*model, name, change.expected_etag));
  Routes routes = model->routes;
  const auto check = [&](int64_t number) { return FindVersion(*model, name, number).status(); };
  for (const auto& [label, number] : change.labels) {
    RETURN_IF_ERROR(CheckLabel(label));
    if (number != 0) RETURN_IF_ERROR(check(number));
    routes.labels.erase(label);
    if (number != 0) routes.labels[label] = number;
  }
  RETURN_IF_ERROR(CheckCount(name, routes));
  if (change.clear_weights || !change.weights.empty()) routes.weights.clear();
  uint64_t sum = 0;
  for (const auto& [number, weight] : change.weights) {
    RETURN_IF_ERROR(check(number));
    if (weight > 0) routes.weights[number] = weight;
    sum += weight;
  }
  if (!change.weights.empty() && sum == 0) {
    return InField("weights", Invalid("the weights' sum is 0; set `clear_weights` to end the split"));
  }
  if (routes.labels.contains(kStable) || sum > 0 || change.clear_weights) routes.are_lost = false;
  return routes;
}

void VersionTable::SetRoutes(const std::string& name, Routes routes) {
  MutexLock lock(mu_);
  models_.at(name).routes = std::move(routes);
}

absl::Status VersionTable::RaiseNext(const std::string& name, int64_t next) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(FindModel(name).status());
  models_.at(name).next = std::max(models_.at(name).next, next);
  return absl::OkStatus();
}

VersionIndex VersionTable::NextIndex(const std::string& name, const Routes& routes) {
  MutexLock lock(mu_);
  Model& model = models_.at(name);
  VersionIndex index{model.next, ++model.revision, {}, routes};
  for (const auto& [number, version] : model.versions) {
    if (!version.retiring) index.versions[number] = version.facts;
  }
  return index;
}

// How versions end, and how they come back.

absl::StatusOr<Routes> VersionTable::BeginRetire(const std::string& name, int64_t number,
                                                 const std::optional<std::string>& expected_etag) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Model* const model, FindModel(name));
  RETURN_IF_ERROR(CheckUndeclared(*model, name));
  RETURN_IF_ERROR(CheckEtag(*model, name, expected_etag));
  RETURN_IF_ERROR(FindVersion(*model, name, number).status());
  const Routes& routes = model->routes;
  for (const auto& [label, labelled] : routes.labels) {
    if (labelled != number) continue;
    return FailedPrecondition("version ", number, " of '", name, "' has the label '", label,
                              "'; give it to another version first (RouteVersions)");
  }
  if (routes.weights.contains(number)) {
    return FailedPrecondition("version ", number, " of '", name,
                              "' gets a part of the requests by its weight; change the weights first (RouteVersions)");
  }
  models_.at(name).versions.at(number).retiring = true;
  return routes;
}

absl::StatusOr<ServedVersionPtr> VersionTable::EndRetire(const std::string& name, int64_t number, const absl::Status& saved) {
  MutexLock lock(mu_);
  Version& version = models_.at(name).versions.at(number);
  version.retiring = saved.ok();
  RETURN_IF_ERROR(saved);
  version.state = v1::ServedVersion::UNLOADING;
  return version.served;
}

void VersionTable::Erase(const std::string& name, int64_t number) {
  MutexLock lock(mu_);
  models_.at(name).versions.erase(number);
}

std::optional<RetiredNames> VersionTable::RetireName(const std::string& name) {
  MutexLock lock(mu_);
  const auto found = models_.find(name);
  if (found == models_.end() || !IsEmpty(found->second)) return std::nullopt;
  RetiredNames& names = retired_[std::string(TenantPrefix(name))];
  names.Add(name, found->second.next);
  return names;
}

void VersionTable::EraseName(const std::string& name) {
  MutexLock lock(mu_);
  std::erase_if(models_, [&](const auto& each) { return each.first == name && IsEmpty(each.second); });
}

void VersionTable::SetRetired(const std::string& tenant, RetiredNames names) {
  MutexLock lock(mu_);
  retired_[tenant] = std::move(names);
}

absl::StatusOr<std::map<int64_t, ServedVersionPtr>> VersionTable::BeginUnload(const std::string& name) {
  std::map<int64_t, ServedVersionPtr> leaving;
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Model* const model, FindModel(name));
  RETURN_IF_ERROR(CheckUndeclared(*model, name));
  for (auto& [number, version] : models_.at(name).versions) {
    if (version.state != v1::ServedVersion::READY || version.retiring) continue;
    version.state = v1::ServedVersion::UNLOADING;
    leaving[number] = version.served;
  }
  return leaving;
}

void VersionTable::EndUnload(const std::string& name, int64_t number, const ServedVersion* drained) {
  MutexLock lock(mu_);
  const absl::StatusOr<const Model*> model = FindModel(name);
  if (!model.ok() || !FindVersion(**model, name, number).ok()) return;
  Version& version = models_.at(name).versions.at(number);
  if (version.state != v1::ServedVersion::UNLOADING || version.served.get() != drained) return;
  version.served = nullptr;
  version.state = v1::ServedVersion::UNAVAILABLE;
  version.reason = "it was unloaded";
}

absl::StatusOr<std::map<int64_t, ServingOptions>> VersionTable::BeginLoad(const std::string& name) {
  std::map<int64_t, ServingOptions> wanted;
  MutexLock lock(mu_);
  RETURN_IF_ERROR(FindModel(name).status());
  for (auto& [number, version] : models_.at(name).versions) {
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
  return wanted;
}

// The names that --serve=FILE owns.

absl::Status VersionTable::CheckDeclarable(const Models& planned) const {
  size_t count = 0;
  for (const auto& [name, model] : models_) {
    if (model.is_declared) continue;
    count += model.versions.size();
    const auto found = planned.find(name);
    if (found == planned.end()) continue;
    RETURN_IF_ERROR(model.status);
    if (model.versions.empty()) continue;
    return FailedPrecondition("'", name, "' is declared, and it has ", model.versions.size(),
                              " published versions; retire them (RetireVersion), or declare another name");
  }
  for (const auto& [name, model] : planned) count += model.versions.size();
  if (count <= most_) return absl::OkStatus();
  return OverLimit("--max_served_versions", "the server would have ", count,
                   " versions of models, the limit of --max_served_versions is ", most_);
}

absl::StatusOr<VersionTable::Models> VersionTable::Plan(Models wanted) const {
  const auto origin = [](const Version& each) { return std::tie(each.facts.source, each.facts.options, each.revision); };
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckDeclarable(wanted));
  for (auto& [name, model] : wanted) {
    const auto old = models_.find(name);
    if (old == models_.end() || !old->second.is_declared) continue;
    for (auto& [number, version] : model.versions) {
      const auto found = old->second.versions.find(number);
      if (found != old->second.versions.end() && origin(found->second) == origin(version)) version = found->second;
    }
  }
  return wanted;
}

absl::StatusOr<std::vector<ServedVersionPtr>> VersionTable::Replace(Models planned) {
  std::vector<ServedVersionPtr> leaving;
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckDeclarable(planned));  // A name may have been published meanwhile.
  std::set<ServedVersionPtr> staying;
  for (const auto& [name, model] : planned) {
    for (const auto& [number, version] : model.versions) staying.insert(version.served);
  }
  std::erase_if(models_, [&](const auto& each) {
    if (!each.second.is_declared) return false;
    for (const auto& [number, version] : each.second.versions) {
      if (!staying.contains(version.served)) leaving.push_back(version.served);
    }
    return true;
  });
  for (auto& [name, model] : planned) models_[name] = std::move(model);
  return leaving;
}

}  // namespace gluond::server
