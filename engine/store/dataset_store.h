// DatasetStore: committed datasets in one directory, each written whole or not at all.
//
//   auto folder = checkpoints->OpenApart(".datasets");
//   DatasetStore store(std::move(folder));
//   RETURN_IF_ERROR(store.Save("fashion", stored));
//   ASSIGN_OR_RETURN(StoredDataset stored, store.Load("fashion", memory));
//
// On disk a dataset is a checkpoint (checkpoint.h) without a model. The columns are the tensors "0", "1", ... The
// notes have a format_version of their own, the upload's client and time, and each column's name, scale, shift and
// checksum.

#ifndef ENGINE_STORE_DATASET_STORE_H_
#define ENGINE_STORE_DATASET_STORE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/checkpoint.h"
#include "engine/train/dataset.h"

namespace gluond {

struct StoredDataset {
  std::shared_ptr<Dataset> dataset;                                                  // Its columns are full.
  std::string client;                                                                // The client that uploaded it.
  std::chrono::system_clock::time_point created = std::chrono::system_clock::now();  // To the microsecond.
  // By column: the checksum of its bytes, and the one that the client declared.
  std::vector<uint32_t> crcs;
  std::vector<std::optional<uint32_t>> declared_crcs;
};

// Thread-safe. Its functions wait for the disk, as CheckpointStore's.
class DatasetStore {
 public:
  // Grows when an older server would misread what this one writes.
  static constexpr int64_t kFormatVersion = 1;

  // `store` holds datasets alone.
  explicit DatasetStore(std::unique_ptr<CheckpointStore> store) : store_(std::move(store)) {}

  // Returns when the dataset is on the disk. Replaces one of that name, a damaged one, too. Errors as
  // CheckpointStore::Save; the old dataset is as it was then. INVALID_ARGUMENT: a bool that is neither 0 nor 1.
  absl::Status Save(const std::string& name, const StoredDataset& stored);
  // Errors as CheckpointStore::Load. The rows lie in `host_allocator`'s memory.
  absl::StatusOr<StoredDataset> Load(const std::string& name, Allocator& host_allocator) const;
  // All names, sorted, also those of damaged datasets.
  absl::StatusOr<std::vector<std::string>> Names() const { return store_->Names(); }
  // Deletes damaged datasets, too. NOT_FOUND: there is none.
  absl::Status Delete(const std::string& name) { return store_->Delete(name); }

 private:
  const std::unique_ptr<CheckpointStore> store_;
};

}  // namespace gluond

#endif  // ENGINE_STORE_DATASET_STORE_H_
