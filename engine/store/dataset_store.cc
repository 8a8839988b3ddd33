#include "engine/store/dataset_store.h"

#include <algorithm>

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

Json ToJson(const StoredDataset& stored) {
  Json columns = Json::Array();
  for (size_t i = 0; i < stored.dataset->columns().size(); ++i) {
    const Column& column = stored.dataset->columns()[i];
    Json json = Json::Object();
    json.Set("name", column.name);
    json.Set("scale", column.scale);
    json.Set("shift", column.shift);
    json.Set("crc32c", uint64_t{stored.crcs[i]});
    json.Set("declared", stored.declared_crcs[i].has_value());
    columns.Append(std::move(json));
  }
  Json json = Json::Object();
  json.Set("format_version", DatasetStore::kFormatVersion);
  json.Set("client_id", stored.client);
  json.Set("created_unix_micros", ToMicros(stored.created));
  json.Set("columns", std::move(columns));
  return json;
}

absl::Status ReadColumn(const Json& json, std::vector<Column>* columns, StoredDataset* stored) {
  Column column;
  uint64_t crc = 0;
  bool declared = false;
  RETURN_IF_ERROR(json.Get("name", &column.name));
  RETURN_IF_ERROR(json.Get("scale", &column.scale));
  RETURN_IF_ERROR(json.Get("shift", &column.shift));
  RETURN_IF_ERROR(json.Get("crc32c", &crc));
  RETURN_IF_ERROR(json.Get("declared", &declared));
  if (crc > UINT32_MAX) return absl::InvalidArgumentError(absl::StrCat("'crc32c' is ", crc, ", more than 32 bits"));
  stored->crcs.push_back(static_cast<uint32_t>(crc));
  stored->declared_crcs.push_back(declared ? std::optional<uint32_t>(stored->crcs.back()) : std::nullopt);
  columns->push_back(std::move(column));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Column>> Read(const Json& json, StoredDataset* stored) {
  RETURN_IF_ERROR(CheckFormatVersion(json, DatasetStore::kFormatVersion));
  int64_t micros = 0;
  RETURN_IF_ERROR(json.Get("client_id", &stored->client));
  RETURN_IF_ERROR(json.Get("created_unix_micros", &micros));
  stored->created = FromMicros(micros);
  ASSIGN_OR_RETURN(const Json* list, json.GetChild("columns", Json::kArray));
  std::vector<Column> columns;
  for (const Json& column : list->elements()) RETURN_IF_ERROR(ReadColumn(column, &columns, stored));
  return columns;
}

absl::StatusOr<StoredDataset> FromCheckpoint(Checkpoint checkpoint, Allocator& host_allocator) {
  if (!checkpoint.notes.has_value()) return absl::InvalidArgumentError("are missing");
  StoredDataset stored;
  ASSIGN_OR_RETURN(std::vector<Column> columns, Read(*checkpoint.notes, &stored));
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (NamedTensor& tensor : checkpoint.model.parameters) by_name.emplace(tensor.name, std::move(tensor.tensor));
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto found = by_name.find(absl::StrCat(i));
    if (found == by_name.end()) {
      return absl::InvalidArgumentError(absl::StrCat("column '", columns[i].name, "' has no tensor '", i, "'"));
    }
    tensors.push_back(found->second);
  }
  ASSIGN_OR_RETURN(stored.dataset, Dataset::FromTensors(std::move(columns), std::move(tensors), host_allocator));
  return stored;
}

// The file's format has no other values in such a column, and would not be read back.
absl::Status CheckBools(const Dataset& dataset) {
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    if (FitsSafetensors(dataset.tensor(i))) continue;
    return absl::InvalidArgumentError(absl::StrCat("column '", Excerpt(dataset.columns()[i].name),
                                                   "' is bool, and has bytes other "
                                                   "than 0 and 1; upload other values with `restart`"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DatasetStore::Save(const std::string& name, const StoredDataset& stored) {
  RETURN_IF_ERROR(CheckBools(*stored.dataset));
  Checkpoint checkpoint;
  checkpoint.notes = ToJson(stored);
  for (size_t i = 0; i < stored.dataset->columns().size(); ++i) {
    checkpoint.model.parameters.push_back({absl::StrCat(i), stored.dataset->tensor(i)});
  }
  return SaveOverDamaged(*store_, name, checkpoint);
}

absl::StatusOr<StoredDataset> DatasetStore::Load(const std::string& name, Allocator& host_allocator) const {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, store_->Load(name, host_allocator));
  absl::StatusOr<StoredDataset> stored = FromCheckpoint(std::move(checkpoint), host_allocator);
  if (!stored.ok()) return Damaged(stored.status(), "notes");
  return stored;
}

}  // namespace gluond
