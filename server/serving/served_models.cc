#include "server/serving/served_models.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "engine/core/text.h"
#include "server/codec/duration.h"
#include "server/custom/operator_owners.h"
#include "server/hosted/describe_model.h"
#include "server/serving/batch_invariance.h"
#include "server/serving/names.h"
#include "server/serving/options_codec.h"
#include "server/serving/place_of_id.h"

namespace gluond::server {
namespace {

constexpr char kStable[] = "stable";

// The number that a version's name is, as answers tell it.
std::optional<int64_t> ReadNumber(absl::string_view version) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(version, &number) || absl::StrCat(number) != version) return std::nullopt;
  return number;
}

absl::Status CheckCount(const std::string& name, const Routes& routes) {
  if (routes.labels.size() <= kMostLabels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' would have more than ", kMostLabels, " labels"));
}

}  // namespace

ServedModels::ServedModels(Runner& runner, Devices& devices, std::unique_ptr<CheckpointStore> store, LogSink log)
    : runner_(runner), devices_(devices),
      store_(store == nullptr ? nullptr : std::make_unique<StoredVersions>(std::move(store))), log_(std::move(log)),
      turns_(runner) {}

// Look-ups.

bool ServedModels::IsServed(const Model& model) {
  return std::any_of(model.versions.begin(), model.versions.end(), [](const auto& each) { return !each.second.retiring; });
}

absl::StatusOr<ServedModels::Model*> ServedModels::FindModel(const std::string& name) {
  const auto found = models_.find(name);
  if (found == models_.end() || (!IsServed(found->second) && found->second.status.ok())) {
    std::vector<std::string> names;
    for (const auto& [each, model] : models_) {
      if (TenantPrefix(each) == TenantPrefix(name) && IsServed(model)) names.push_back(each);
    }
    return WithInfo(absl::NotFoundError(absl::StrCat("no model is served as '", Excerpt(name), "'", DidYouMean(name, names),
                                                     " (PublishModel makes a version of a model)")),
                    reason::kNotFound, {{"kind", "served model"}, {"name", Excerpt(name)}});
  }
  RETURN_IF_ERROR(found->second.status);
  return &found->second;
}

absl::StatusOr<const ServedModels::Model*> ServedModels::FindModel(const std::string& name) const {
  return const_cast<ServedModels*>(this)->FindModel(name);
}

absl::Status ServedModels::NoVersion(const Model& model, const std::string& name, absl::string_view version) {
  std::vector<std::string> known;
  for (const auto& [number, each] : model.versions) {
    if (!each.retiring) known.push_back(absl::StrCat(number));
  }
  for (const auto& [label, number] : model.routes.labels) known.push_back(label);
  return WithInfo(absl::NotFoundError(absl::StrCat("'", name, "' has no version '", Excerpt(version), "'; there are ",
                                                   absl::StrJoin(known, ", "))),
                  reason::kNotFound, {{"kind", "version"}, {"name", Excerpt(version)}});
}

absl::StatusOr<const ServedModels::Version*> ServedModels::FindVersion(const Model& model, const std::string& name,
                                                                       int64_t number) {
  const auto found = model.versions.find(number);
  if (found == model.versions.end() || found->second.retiring) return NoVersion(model, name, absl::StrCat(number));
  return &found->second;
}

absl::StatusOr<int64_t> ServedModels::Number(const Model& model, const std::string& name, const std::string& version,
                                             std::optional<absl::string_view> id) const {
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
    return absl::UnavailableError(absl::StrCat("the index of the versions of '", name, "' was damaged or missing, and its "
                                               "labels and weights are lost; set the label `stable` or weights again "
                                               "(RouteVersions), or name a version's number"));
  }
  std::optional<int64_t> last;  // The highest one, as long as none is ready.
  for (auto it = model.versions.rbegin(); it != model.versions.rend(); ++it) {
    if (it->second.retiring) continue;
    if (it->second.state == v1::ServedVersion::READY) return it->first;
    if (!last.has_value()) last = it->first;
  }
  return *last;  // FindModel saw one.
}

absl::StatusOr<ServedVersionPtr> ServedModels::Choose(const std::string& name, const std::string& version,
                                                      std::optional<absl::string_view> id) const {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Model* const model, FindModel(name));
  ASSIGN_OR_RETURN(const int64_t number, Number(*model, name, version, id));
  ASSIGN_OR_RETURN(const Version* const found, FindVersion(*model, name, number));
  if (found->state == v1::ServedVersion::READY) return found->served;
  if (found->state == v1::ServedVersion::LOADING) {
    return WithInfo(absl::UnavailableError(absl::StrCat("version ", number, " of '", name, "' is being loaded; try again in a "
                                                        "moment")), reason::kLoading);
  }
  return absl::UnavailableError(absl::StrCat("version ", number, " of '", name, "' is ",
                                             v1::ServedVersion::State_Name(found->state),
                                             found->reason.empty() ? "" : absl::StrCat(": ", found->reason)));
}

absl::StatusOr<std::vector<ServedVersionPtr>> ServedModels::Ready(const std::string& name) const {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const Model* const model, FindModel(name));
  std::vector<ServedVersionPtr> ready;
  for (const auto& [number, version] : model->versions) {
    if (version.state == v1::ServedVersion::READY) ready.push_back(version.served);
  }
  return ready;
}

std::vector<std::pair<std::string, ServedVersionPtr>> ServedModels::AllReady() const {
  std::vector<std::pair<std::string, ServedVersionPtr>> ready;
  MutexLock lock(mu_);
  for (const auto& [name, model] : models_) {
    for (const auto& [number, version] : model.versions) {
      if (version.state == v1::ServedVersion::READY) ready.emplace_back(name, version.served);
    }
  }
  return ready;
}

v1::ServedVersion ServedModels::Describe(const std::string& name, const Model& model, int64_t number) const {
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
  proto.set_stored(store_ != nullptr || model.is_declared);
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

ServedModels::Versions ServedModels::ListLocked(const std::string& name) const {
  Versions list;
  for (const auto& [each, model] : models_) {
    if (!name.empty() && each != name) continue;
    for (const auto& [number, version] : model.versions) list.push_back(Describe(each, model, number));
  }
  return list;
}

ServedModels::Versions ServedModels::List(const std::string& name) const {
  MutexLock lock(mu_);
  return ListLocked(name);
}

// Publishing.

std::string ServedModels::EtagOf(const Model& model) { return absl::StrCat(model.next, ".", model.revision); }

absl::Status ServedModels::CheckEtag(const Model& model, const std::string& name,
                                     const std::optional<std::string>& expected) {
  if (!expected.has_value() || *expected == EtagOf(model)) return absl::OkStatus();
  return WithInfo(absl::AbortedError(absl::StrCat("the versions of '", name, "', or the routes to them, are others by now than those "
                                                  "of the expected etag; list them again")),
                  reason::kVersionChanged, {{"etag", EtagOf(model)}});
}

absl::Status ServedModels::SaveIndex(const std::string& name, const Routes& routes) {
  VersionIndex index;
  {
    MutexLock lock(mu_);
    Model& model = models_.at(name);
    index.next = model.next;
    index.revision = ++model.revision;
    index.routes = routes;
    for (const auto& [number, version] : model.versions) {
      if (!version.retiring) index.versions[number] = version.facts;
    }
  }
  return store_ == nullptr ? absl::OkStatus() : store_->SaveIndex(name, index);
}

absl::StatusOr<int64_t> ServedModels::Reserve(const std::string& name, const VersionFacts& facts) {
  MutexLock lock(mu_);
  const auto most = static_cast<size_t>(runner_.limits.max_served_versions);
  size_t count = 0;
  int64_t of_tenant = 0;
  for (const auto& [each, model] : models_) {
    count += model.versions.size();
    if (TenantPrefix(each) == TenantPrefix(name)) of_tenant += static_cast<int64_t>(model.versions.size());
  }
  RETURN_IF_ERROR(runner_.tenants.CheckCount(name, "version", &Quotas::versions, of_tenant));
  if (count >= most) {
    return OverLimit("--max_served_versions", "the server has ", count, " versions of models, the limit of "
                     "--max_served_versions; retire one");
  }
  const auto [found, is_new] = models_.try_emplace(name);
  Model& model = found->second;
  RETURN_IF_ERROR(model.status);
  RETURN_IF_ERROR(CheckUndeclared(model, name));
  if (is_new) model.next = retired_[std::string(TenantPrefix(name))].NextOf(name);
  const int64_t number = model.next++;
  model.versions[number].facts = facts;
  return number;
}

Task<absl::Status> ServedModels::MakeAndKeep(const std::string& name, int64_t number, ModelState state,
                                             const ServingOptions& options, const Routes& routes) {
  CO_RETURN_IF_ERROR(co_await Serve(name, number, state, options));
  if (store_ != nullptr) {
    co_await PostedToDisk(runner_.dispatch);
    CO_RETURN_IF_ERROR(store_->SaveValues(name, number, std::move(state)));
  }
  const absl::Status saved = SaveIndex(name, routes);
  if (!saved.ok()) (void)store_->DeleteValues(name, number);
  co_return saved;
}

std::optional<v1::ServedVersion> ServedModels::FindPublished(const std::string& name, const VersionFacts& facts,
                                                             std::optional<uint64_t> rewound_to) const {
  // The owners of its operators were settled then, whoever shares these now.
  const auto is_asked = [&facts](ServingOptions options) {
    options.operator_owners = facts.options.operator_owners;
    return options == facts.options;
  };
  MutexLock lock(mu_);
  const auto model = models_.find(name);
  if (facts.number == 0 || !rewound_to.has_value() || model == models_.end()) return std::nullopt;
  for (const auto& [number, version] : model->second.versions) {
    const VersionFacts& its = version.facts;
    if (!version.retiring && its.number == facts.number && its.client == facts.client && its.source == facts.source &&
        is_asked(its.options) && its.source_version >= *rewound_to) {
      return Describe(name, model->second, number);
    }
  }
  return std::nullopt;
}

Task<absl::StatusOr<v1::ServedVersion>> ServedModels::PublishNow(std::string name, ModelState state, VersionFacts facts,
                                                                 std::vector<std::string> labels,
                                                                 std::optional<uint64_t> rewound_to) {
  CO_RETURN_IF_ERROR(CheckServedName(name, &runner_.tenants));
  for (const std::string& label : labels) CO_RETURN_IF_ERROR(CheckLabel(label));
  CO_ASSIGN_OR_RETURN(const Place* const place, devices_.Find(facts.options.device));
  facts.options.device = place->device.ToString();
  if (std::optional<v1::ServedVersion> published = FindPublished(name, facts, rewound_to)) co_return *std::move(published);
  CO_RETURN_IF_ERROR(CheckBatchInvariance(facts.options, state, *place));
  CO_ASSIGN_OR_RETURN(facts.options.operator_owners,
                      OwnersOf(state.definition.outputs, std::string(TenantPrefix(name)), devices_.custom_host()));
  CO_ASSIGN_OR_RETURN(const int64_t number, Reserve(name, facts));
  Routes routes;
  {
    MutexLock lock(mu_);
    routes = models_.at(name).routes;
  }
  for (const std::string& label : labels) routes.labels[label] = number;
  absl::Status status = CheckCount(name, routes);
  if (status.ok()) status = co_await MakeAndKeep(name, number, std::move(state), facts.options, routes);
  MutexLock lock(mu_);
  Model& model = models_.at(name);
  if (!status.ok()) {
    model.versions.erase(number);
    --model.next;
    if (model.versions.empty()) models_.erase(name);
    co_return status;
  }
  model.routes = std::move(routes);
  model.versions.at(number).state = v1::ServedVersion::READY;
  co_return Describe(name, model, number);
}

void ServedModels::Remember(const ServedVersionPtr& served) {
  std::erase_if(all_, [](const auto& each) { return each.expired(); });
  all_.push_back(served);
}

Task<absl::Status> ServedModels::Serve(const std::string& name, int64_t number, ModelState state,
                                       const ServingOptions& options) {
  const ServedVersion::Shared shared{runner_, devices_, alarm_};
  absl::StatusOr<ServedVersionPtr> served = co_await ServedVersion::Create(shared, name, number, std::move(state), options);
  MutexLock lock(mu_);
  Version& version = models_.at(name).versions.at(number);
  if (served.ok()) {
    Remember(*served);
    version.served = *std::move(served);
    co_return absl::OkStatus();
  }
  version.state = v1::ServedVersion::UNAVAILABLE;
  version.reason = std::string(served.status().message());
  co_return served.status();
}

void ServedModels::Publish(const std::string& name, ModelState state, VersionFacts facts, std::vector<std::string> labels,
                           std::function<void(absl::StatusOr<v1::ServedVersion>)> done,
                           std::optional<uint64_t> rewound_to) {
  const auto kept = std::make_shared<ModelState>(std::move(state));
  turns_.RunTask<absl::StatusOr<v1::ServedVersion>>(
      name,
      [this, name, kept, facts = std::move(facts), labels = std::move(labels), rewound_to] {
        return PublishNow(name, std::move(*kept), facts, labels, rewound_to);
      },
      std::move(done));
}

// Routes.

absl::StatusOr<ServedModels::Versions> ServedModels::RouteNow(const std::string& name, const Change& change) {
  Routes routes;
  {
    MutexLock lock(mu_);
    ASSIGN_OR_RETURN(const Model* const model, FindModel(name));
    RETURN_IF_ERROR(CheckUndeclared(*model, name));
    RETURN_IF_ERROR(CheckEtag(*model, name, change.expected_etag));
    routes = model->routes;
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
      return InField("weights", absl::InvalidArgumentError("the weights' sum is 0; set `clear_weights` to end the split"));
    }
    if (routes.labels.contains(kStable) || sum > 0 || change.clear_weights) routes.are_lost = false;
  }
  RETURN_IF_ERROR(SaveIndex(name, routes));
  MutexLock lock(mu_);
  models_.at(name).routes = std::move(routes);
  return ListLocked(name);
}

void ServedModels::Route(const std::string& name, Change change, std::function<void(absl::StatusOr<Versions>)> done) {
  turns_.Run(name, [this, name, change = std::move(change), done = std::move(done)] { done(RouteNow(name, change)); });
}

}  // namespace gluond::server
