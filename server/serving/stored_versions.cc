#include "server/serving/stored_versions.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/json.h"
#include "engine/store/manifest.h"
#include "engine/store/notes.h"
#include "engine/store/version_files.h"

namespace gluond::server {
namespace {

constexpr absl::string_view kIndex = ".index";
constexpr absl::string_view kRetired = "names.retired";  // No version's name, nor an index'.

std::string ValuesName(const std::string& name, int64_t number) { return absl::StrCat(name, ".", number); }
std::string IndexName(const std::string& name) { return absl::StrCat(name, kIndex); }

Json ToJson(const ServingOptions& options) {
  Json preferred = Json::Array();
  for (const int64_t size : options.preferred_batch_sizes) preferred.Append(size);
  return Json::Object({{"max_batch_size", options.max_batch_size},
                       {"preferred_batch_sizes", std::move(preferred)},
                       {"max_queue_delay_us", int64_t{options.max_queue_delay.count()}},
                       {"max_queue_size", options.max_queue_size},
                       {"priority_levels", options.priority_levels},
                       {"default_priority", options.default_priority},
                       {"default_timeout_us", int64_t{options.default_timeout.count()}},
                       {"allow_timeout_override", options.allow_timeout_override},
                       {"instances", options.instances},
                       {"device", options.device},
                       {"batch_invariant", options.batch_invariant},
                       {"delay_late_requests", options.delay_late_requests},
                       {"operator_owners", Json::ObjectOf(options.operator_owners)}});
}

absl::StatusOr<ServingOptions> ReadOptions(const Json& json) {
  ServingOptions options;
  int64_t delay = 0, timeout = 0;
  RETURN_IF_ERROR(json.Get("max_batch_size", &options.max_batch_size));
  ASSIGN_OR_RETURN(const Json* const preferred, json.GetChild("preferred_batch_sizes", Json::kArray));
  for (const Json& size : preferred->elements()) {
    RETURN_IF_ERROR(size.Get(&options.preferred_batch_sizes.emplace_back()));
  }
  RETURN_IF_ERROR(json.Get("max_queue_delay_us", &delay));
  RETURN_IF_ERROR(json.Get("max_queue_size", &options.max_queue_size));
  RETURN_IF_ERROR(json.Get("priority_levels", &options.priority_levels));
  RETURN_IF_ERROR(json.Get("default_priority", &options.default_priority));
  RETURN_IF_ERROR(json.Get("default_timeout_us", &timeout));
  RETURN_IF_ERROR(json.Get("allow_timeout_override", &options.allow_timeout_override));
  RETURN_IF_ERROR(json.Get("instances", &options.instances));
  RETURN_IF_ERROR(json.Get("device", &options.device));
  RETURN_IF_ERROR(json.Get("batch_invariant", &options.batch_invariant));
  if (const Json* const delay_late = json.Find("delay_late_requests"); delay_late != nullptr) {  // Older indices have none.
    RETURN_IF_ERROR(delay_late->Get(&options.delay_late_requests));
  }
  if (const Json* const owners = json.Find("operator_owners"); owners != nullptr) {
    for (const auto& [op_type, owner] : owners->members()) RETURN_IF_ERROR(owner.Get(&options.operator_owners[op_type]));
  }
  options.max_queue_delay = std::chrono::microseconds(delay);
  options.default_timeout = std::chrono::microseconds(timeout);
  return options;
}

Json ToJson(const VersionIndex& index) {
  Json versions = Json::Array();
  for (const auto& [number, facts] : index.versions) {
    Json version = Json::Object({{"version", number},
                                 {"source", facts.source},
                                 {"source_version", facts.source_version},
                                 {"created_unix_micros", ToMicros(facts.created)},
                                 {"options", ToJson(facts.options)}});
    if (facts.number != 0) version.Set("client", facts.client);
    if (facts.number != 0) version.Set("number", facts.number);
    if (facts.checksum.has_value()) version.Set("checksum", int64_t{*facts.checksum});
    versions.Append(std::move(version));
  }
  Json weights = Json::Array();
  for (const auto& [number, weight] : index.routes.weights) {
    weights.Append(Json::Object({{"version", number}, {"weight", int64_t{weight}}}));
  }
  Json json = Json::Object({{"format_version", StoredVersions::kFormatVersion},
                            {"next", index.next},
                            {"revision", index.revision},
                            {"versions", std::move(versions)},
                            {"labels", Json::ObjectOf(index.routes.labels)},
                            {"weights", std::move(weights)}});
  if (index.routes.are_lost) json.Set("routes_are_lost", true);
  return json;
}

absl::StatusOr<VersionIndex> ReadIndex(const Json& json) {
  RETURN_IF_ERROR(CheckFormatVersion(json, StoredVersions::kFormatVersion));
  VersionIndex index;
  RETURN_IF_ERROR(json.Get("next", &index.next));
  if (const Json* const revision = json.Find("revision"); revision != nullptr) RETURN_IF_ERROR(revision->Get(&index.revision));
  ASSIGN_OR_RETURN(const Json* const versions, json.GetChild("versions", Json::kArray));
  for (const Json& version : versions->elements()) {
    int64_t number = 0, created = 0;
    VersionFacts facts;
    RETURN_IF_ERROR(version.Get("version", &number));
    RETURN_IF_ERROR(version.Get("source", &facts.source));
    RETURN_IF_ERROR(version.Get("source_version", &facts.source_version));
    RETURN_IF_ERROR(version.Get("created_unix_micros", &created));
    facts.created = FromMicros(created);
    ASSIGN_OR_RETURN(const Json* const options, version.GetChild("options", Json::kObject));
    ASSIGN_OR_RETURN(facts.options, ReadOptions(*options));
    if (version.Find("number") != nullptr) {
      RETURN_IF_ERROR(version.Get("client", &facts.client));
      RETURN_IF_ERROR(version.Get("number", &facts.number));
    }
    if (int64_t checksum = 0; version.Find("checksum") != nullptr) {
      RETURN_IF_ERROR(version.Get("checksum", &checksum));
      facts.checksum = static_cast<uint32_t>(checksum);
    }
    index.versions[number] = std::move(facts);
  }
  ASSIGN_OR_RETURN(const Json* const labels, json.GetChild("labels", Json::kObject));
  for (const auto& [label, number] : labels->members()) RETURN_IF_ERROR(number.Get(&index.routes.labels[label]));
  ASSIGN_OR_RETURN(const Json* const weights, json.GetChild("weights", Json::kArray));
  for (const Json& pair : weights->elements()) {
    int64_t number = 0, weight = 0;
    RETURN_IF_ERROR(pair.Get("version", &number));
    RETURN_IF_ERROR(pair.Get("weight", &weight));
    index.routes.weights[number] = static_cast<uint32_t>(weight);
  }
  if (const Json* const lost = json.Find("routes_are_lost"); lost != nullptr) RETURN_IF_ERROR(lost->Get(&index.routes.are_lost));
  return index;
}

Json ToJson(const RetiredNames& names) {
  return Json::Object(
      {{"format_version", StoredVersions::kFormatVersion}, {"first", names.first}, {"next", Json::ObjectOf(names.next)}});
}

absl::StatusOr<RetiredNames> ReadRetired(const Json& json) {
  RETURN_IF_ERROR(CheckFormatVersion(json, StoredVersions::kFormatVersion));
  RetiredNames names;
  RETURN_IF_ERROR(json.Get("first", &names.first));
  ASSIGN_OR_RETURN(const Json* const next, json.GetChild("next", Json::kObject));
  for (const auto& [name, number] : next->members()) RETURN_IF_ERROR(number.Get(&names.next[name]));
  return names;
}

// JSON is kept as the notes of a checkpoint without tensors.
absl::Status SaveNotes(CheckpointStore& store, const std::string& name, Json notes) {
  Checkpoint checkpoint;
  checkpoint.notes = std::move(notes);
  return SaveOverDamaged(store, name, checkpoint);
}

template <class T>
absl::StatusOr<T> LoadNotes(const CheckpointStore& store, const std::string& name, absl::StatusOr<T> (*read)(const Json&)) {
  ASSIGN_OR_RETURN(const Json notes, store.ReadNotes(name));
  absl::StatusOr<T> found = read(notes);
  if (!found.ok()) return Damaged(found.status(), "notes");
  return found;
}

absl::Status UnlessMissing(const absl::Status& deleted) { return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted; }

}  // namespace

absl::Status StoredVersions::SaveValues(const std::string& name, int64_t number, ModelState state) {
  return SaveOverDamaged(*store_, ValuesName(name, number), Checkpoint{std::move(state), std::nullopt});
}

absl::StatusOr<ModelState> StoredVersions::LoadValues(const std::string& name, int64_t number, Allocator& host_allocator) const {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, store_->Load(ValuesName(name, number), host_allocator));
  return std::move(checkpoint.model);
}

absl::Status StoredVersions::DeleteValues(const std::string& name, int64_t number) {
  return UnlessMissing(store_->Delete(ValuesName(name, number)));
}

absl::StatusOr<uint32_t> StoredVersions::Checksum(const std::string& name, int64_t number) const {
  return store_->Checksum(ValuesName(name, number));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> StoredVersions::OpenFile(const std::string& name, int64_t number, uint32_t checksum,
                                                                       const std::string& file) const {
  return store_->OpenFile(ValuesName(name, number), checksum, file);
}

absl::Status StoredVersions::SaveIndex(const std::string& name, const VersionIndex& index) {
  return SaveNotes(*store_, IndexName(name), ToJson(index));
}

absl::StatusOr<VersionIndex> StoredVersions::LoadIndex(const std::string& name) const {
  return LoadNotes(*store_, IndexName(name), ReadIndex);
}

absl::Status StoredVersions::DeleteIndex(const std::string& name) { return UnlessMissing(store_->Delete(IndexName(name))); }

absl::Status StoredVersions::SaveRetired(const std::string& tenant, const RetiredNames& names) {
  return SaveNotes(*store_, absl::StrCat(tenant, kRetired), ToJson(names));
}

absl::StatusOr<RetiredNames> StoredVersions::LoadRetired(const std::string& tenant) const {
  return LoadNotes(*store_, absl::StrCat(tenant, kRetired), ReadRetired);
}

absl::StatusOr<std::vector<std::string>> StoredVersions::ListRetired() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, store_->Names());
  std::vector<std::string> tenants;
  for (absl::string_view name : all) {
    if (absl::ConsumeSuffix(&name, kRetired) && TenantPrefix(name) == name) tenants.emplace_back(name);
  }
  return tenants;
}

absl::StatusOr<std::map<std::string, std::vector<int64_t>>> StoredVersions::List() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, store_->Names());
  std::map<std::string, std::vector<int64_t>> list;
  for (absl::string_view name : all) {
    if (absl::ConsumeSuffix(&name, kIndex)) list[std::string(name)];
  }
  for (const std::string& each : all) {
    const size_t dot = each.rfind('.');
    int64_t number = 0;
    if (dot == std::string::npos || !absl::SimpleAtoi(each.substr(dot + 1), &number)) continue;
    if (each == ValuesName(each.substr(0, dot), number)) list[each.substr(0, dot)].push_back(number);
  }
  for (auto& [name, numbers] : list) std::sort(numbers.begin(), numbers.end());
  return list;
}

}  // namespace gluond::server
