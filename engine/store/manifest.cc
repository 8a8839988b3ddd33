#include "engine/store/manifest.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/store/state_json.h"
#include "engine/train/sharded_step.h"

namespace gluond {
namespace {

// Grows when an older server would misread what this one writes.
constexpr int64_t kFormatVersion = 1;
constexpr int64_t kMaxFileBytes = int64_t{1} << 56;  // The sum over the files of a manifest stays below 2^63.
constexpr size_t kMaxFiles = 64;

Json ToJson(const FileEntry& file) {
  Json json = Json::Object();
  json.Set("name", file.name);
  json.Set("bytes", file.bytes);
  json.Set("crc32c", uint64_t{file.crc32c});
  return json;
}

absl::Status Read(const Json& json, FileEntry* file) {
  uint64_t crc = 0;
  RETURN_IF_ERROR(json.Get("name", &file->name));
  RETURN_IF_ERROR(json.Get("bytes", &file->bytes));
  RETURN_IF_ERROR(json.Get("crc32c", &crc));
  if (file->bytes < 0 || file->bytes > kMaxFileBytes || crc > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("file '", Excerpt(file->name), "' has ", file->bytes, " bytes, checksum ", crc));
  }
  file->crc32c = static_cast<uint32_t>(crc);
  return absl::OkStatus();
}

Json ToJson(const Hosting& hosting) {
  Json applied = Json::Object();
  for (const auto& [client, last] : hosting.applied) applied.Set(client, last);
  Json json = Json::Object();
  json.Set("device", hosting.device);
  json.Set("seed", hosting.seed);
  if (hosting.ttl_seconds.has_value()) json.Set("ttl_seconds", *hosting.ttl_seconds);
  json.Set("version", hosting.version);
  json.Set("applied", std::move(applied));
  if (!hosting.in_part.empty()) {
    Json in_part = Json::Object();
    for (const std::string& client : hosting.in_part) in_part.Set(client, true);
    json.Set("in_part", std::move(in_part));
  }
  if (hosting.silent.empty()) return json;
  Json silent = Json::Object();
  for (const auto& [identity, packed] : hosting.silent) silent.Set(identity, packed);
  json.Set("silent", std::move(silent));
  return json;
}

absl::Status Read(const Json& json, Hosting* hosting) {
  RETURN_IF_ERROR(json.Get("device", &hosting->device));
  RETURN_IF_ERROR(json.Get("seed", &hosting->seed));
  if (json.Find("ttl_seconds") != nullptr) RETURN_IF_ERROR(json.Get("ttl_seconds", &hosting->ttl_seconds.emplace()));
  RETURN_IF_ERROR(json.Get("version", &hosting->version));
  ASSIGN_OR_RETURN(const Json* applied, json.GetChild("applied", Json::kObject));
  for (const auto& [client, last] : applied->members()) {
    hosting->applied.emplace_back(client, 0);
    RETURN_IF_ERROR(Annotate(last.Get(&hosting->applied.back().second), absl::StrCat("applied of ", Excerpt(client))));
  }
  if (json.Find("in_part") != nullptr) {
    ASSIGN_OR_RETURN(const Json* in_part, json.GetChild("in_part", Json::kObject));
    for (const auto& [client, is_in_part] : in_part->members()) hosting->in_part.insert(client);
  }
  if (json.Find("silent") == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Json* silent, json.GetChild("silent", Json::kObject));
  for (const auto& [identity, packed] : silent->members()) {
    RETURN_IF_ERROR(Annotate(packed.Get(&hosting->silent[identity]), absl::StrCat("silent of ", Excerpt(identity))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFormatVersion(const Json& json, int64_t known) {
  int64_t version = 0;
  RETURN_IF_ERROR(json.Get("format_version", &version));
  if (version > known) {
    return absl::FailedPreconditionError(absl::StrCat("format_version is ", version, ", this server reads up to ", known,
                                                      "; load it with the newer server that wrote it"));
  }
  if (version == known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("format_version is ", version, ", expected ", known));
}

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const FileEntry& file : files) sum += file.bytes;
  return sum;
}

absl::StatusOr<FileEntry> Manifest::Find(absl::string_view file) const {
  for (const FileEntry& entry : files)
    if (entry.name == file) return entry;
  return absl::DataLossError(absl::StrCat("the manifest does not list ", file));
}

Json ManifestToJson(const Manifest& manifest) {
  Json files = Json::Array();
  for (const FileEntry& file : manifest.files) files.Append(ToJson(file));
  Json json = Json::Object();
  json.Set("format_version", kFormatVersion);
  json.Set("saved_unix_seconds", manifest.saved_unix_seconds);
  json.Set("step", manifest.step());  // For people.
  json.Set("random", RandomToJson(manifest.random));
  json.Set("files", std::move(files));
  if (manifest.trainer.has_value()) json.Set("trainer", TrainerToJson(*manifest.trainer));
  if (manifest.hosting.has_value()) json.Set("hosting", ToJson(*manifest.hosting));
  if (manifest.virtual_shards.has_value()) json.Set("virtual_shards", *manifest.virtual_shards);
  if (manifest.notes.has_value()) json.Set("notes", *manifest.notes);
  return json;
}

absl::StatusOr<Manifest> ManifestFromJson(const Json& json) {
  RETURN_IF_ERROR(CheckFormatVersion(json, kFormatVersion));
  Manifest manifest;
  RETURN_IF_ERROR(json.Get("saved_unix_seconds", &manifest.saved_unix_seconds));
  ASSIGN_OR_RETURN(const Json* random, json.GetChild("random", Json::kObject));
  ASSIGN_OR_RETURN(manifest.random, RandomFromJson(*random));
  ASSIGN_OR_RETURN(const Json* files, json.GetChild("files", Json::kArray));
  if (files->elements().size() > kMaxFiles) return absl::InvalidArgumentError("too many files");
  for (const Json& file : files->elements()) RETURN_IF_ERROR(Read(file, &manifest.files.emplace_back()));
  if (const Json* trainer = json.Find("trainer")) {
    ASSIGN_OR_RETURN(manifest.trainer, TrainerFromJson(*trainer));
  }
  if (const Json* hosting = json.Find("hosting")) {
    RETURN_IF_ERROR(Annotate(Read(*hosting, &manifest.hosting.emplace()), "hosting"));
  }
  if (json.Find("virtual_shards") != nullptr) {
    int64_t& shards = manifest.virtual_shards.emplace();
    RETURN_IF_ERROR(json.Get("virtual_shards", &shards));
    const ShardedStep any{.rows = 1, .shards = shards, .count = 0};
    RETURN_IF_ERROR(any.Check());
  }
  if (const Json* notes = json.Find("notes")) manifest.notes = *notes;
  return manifest;
}

}  // namespace gluond
