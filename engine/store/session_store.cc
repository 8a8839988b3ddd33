#include "engine/store/session_store.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/store/json.h"
#include "engine/store/manifest.h"
#include "engine/store/notes.h"
#include "engine/store/safetensors.h"
#include "engine/store/version_files.h"

namespace gluond {
namespace {

Json ToJson(const SessionSummary& summary) {
  Json arrays = Json::Array();
  for (const SessionSummary::Array& array : summary.arrays) {
    Json shape = Json::Array();
    for (const int64_t dim : array.shape) shape.Append(dim);
    Json json = Json::Object();
    json.Set("name", array.name);
    json.Set("dtype", std::string(Name(array.dtype)));
    json.Set("shape", std::move(shape));
    arrays.Append(std::move(json));
  }
  Json json = Json::Object();
  json.Set("format_version", SessionStore::kFormatVersion);
  json.Set("key_hash", summary.key_hash);
  json.Set("version", summary.version);
  json.Set("client_id", summary.client);
  json.Set("created_unix_micros", ToMicros(summary.created));
  json.Set("manifest", summary.manifest);
  json.Set("arrays", std::move(arrays));
  return json;
}

absl::StatusOr<SessionSummary::Array> ReadArray(const Json& json) {
  SessionSummary::Array array;
  std::string dtype;
  RETURN_IF_ERROR(json.Get("name", &array.name));
  RETURN_IF_ERROR(json.Get("dtype", &dtype));
  ASSIGN_OR_RETURN(array.dtype, ParseDType(dtype));
  ASSIGN_OR_RETURN(const Json* const dims, json.GetChild("shape", Json::kArray));
  std::vector<int64_t> shape;
  for (const Json& dim : dims->elements()) RETURN_IF_ERROR(dim.Get(&shape.emplace_back()));
  ASSIGN_OR_RETURN(array.shape, Shape::FromDims(shape));
  return array;
}

absl::StatusOr<SessionSummary> ReadSummary(const Json& json) {
  RETURN_IF_ERROR(CheckFormatVersion(json, SessionStore::kFormatVersion));
  SessionSummary summary;
  int64_t micros = 0;
  RETURN_IF_ERROR(json.Get("key_hash", &summary.key_hash));
  RETURN_IF_ERROR(json.Get("version", &summary.version));
  RETURN_IF_ERROR(json.Get("client_id", &summary.client));
  RETURN_IF_ERROR(json.Get("created_unix_micros", &micros));
  RETURN_IF_ERROR(json.Get("manifest", &summary.manifest));
  summary.created = FromMicros(micros);
  ASSIGN_OR_RETURN(const Json* const arrays, json.GetChild("arrays", Json::kArray));
  for (const Json& array : arrays->elements()) {
    ASSIGN_OR_RETURN(SessionSummary::Array read, ReadArray(array));
    summary.arrays.push_back(std::move(read));
  }
  return summary;
}

absl::StatusOr<SessionSave> FromCheckpoint(Checkpoint checkpoint) {
  if (!checkpoint.notes.has_value()) return absl::InvalidArgumentError("are missing");
  SessionSave save;
  ASSIGN_OR_RETURN(save.summary, ReadSummary(*checkpoint.notes));
  save.random = checkpoint.model.random;
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (NamedTensor& tensor : checkpoint.model.parameters) by_name.emplace(tensor.name, std::move(tensor.tensor));
  for (const SessionSummary::Array& array : save.summary.arrays) {
    const auto found = by_name.find(absl::StrCat(save.arrays.size()));
    if (found == by_name.end() || found->second.shape() != array.shape || found->second.dtype() != array.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("array '", Excerpt(array.name), "' has no tensor of its type"));
    }
    save.arrays.push_back({array.name, found->second});
  }
  return save;
}

}  // namespace

int64_t SessionSummary::bytes() const {
  int64_t bytes = 0;
  for (const Array& array : arrays) bytes += array.shape.Size() * static_cast<int64_t>(SizeOf(array.dtype));
  return bytes;
}

absl::Status SessionStore::Save(const std::string& name, const SessionSave& save) {
  Checkpoint checkpoint;
  checkpoint.notes = ToJson(save.summary);
  checkpoint.model.random = save.random;
  for (const NamedTensor& array : save.arrays) {
    if (!FitsSafetensors(array.tensor)) {
      return absl::InvalidArgumentError(absl::StrCat("array '", Excerpt(array.name),
                                                     "' is bool, and has bytes other "
                                                     "than 0 and 1; save it as uint8"));
    }
    checkpoint.model.parameters.push_back({absl::StrCat(checkpoint.model.parameters.size()), array.tensor});
  }
  return SaveOverDamaged(*store_, name, checkpoint);
}

absl::StatusOr<SessionSave> SessionStore::Load(const std::string& name, Allocator& host_allocator) const {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, store_->Load(name, host_allocator));
  absl::StatusOr<SessionSave> save = FromCheckpoint(std::move(checkpoint));
  if (!save.ok()) return Damaged(save.status(), "notes");
  return save;
}

absl::StatusOr<SessionSummary> SessionStore::LoadSummary(const std::string& name) const {
  ASSIGN_OR_RETURN(const Json notes, store_->ReadNotes(name));
  absl::StatusOr<SessionSummary> summary = ReadSummary(notes);
  if (!summary.ok()) return Damaged(summary.status(), "notes");
  return summary;
}

}  // namespace gluond
