// CheckpointStore: checkpoints in one directory. A checkpoint is a model, and its trainer if it has one, at one moment;
// a run that resumes from it equals, bit for bit, the run that went on.
//
//   ASSIGN_OR_RETURN(auto store, CheckpointStore::Open(LocalFileSystem(), directory));
//   trainer->Snapshot([&](auto state) { ... on another thread: store->Save("lenet-epoch-3", checkpoint) ... });
//   ASSIGN_OR_RETURN(Checkpoint checkpoint, store->Load("lenet-epoch-3", memory));
//   ASSIGN_OR_RETURN(auto model, Model::Create(checkpoint.model.definition, options));
//   model->Restore(std::move(checkpoint.model), ...);
//
// On disk: <directory>/<name>/<version>/ holds graph.json, parameters.safetensors, optimizer.safetensors (with a
// trainer), and manifest.json with the size and checksum of each; <directory>/<name>/CURRENT names the version. Save
// writes a new version, makes it durable, and then replaces CURRENT by a rename: whoever stops the process or the power
// at any moment finds the old checkpoint or the new one, whole. The old version is removed after that.

#ifndef ENGINE_STORE_CHECKPOINT_H_
#define ENGINE_STORE_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/model.h"
#include "engine/store/file_system.h"
#include "engine/train/trainer.h"

namespace gluond {

struct Checkpoint {
  ModelState model;
  std::optional<TrainerState> trainer;
};

struct CheckpointSummary {
  std::string name;
  int64_t step = 0;               // 0 without a trainer.
  bool has_trainer = false;
  int64_t bytes = 0;              // Of all files.
  int64_t saved_unix_seconds = 0;
};

// OK for [A-Za-z0-9][A-Za-z0-9._-]{0,127}, the names of models, datasets and checkpoints. INVALID_ARGUMENT says that.
absl::Status CheckName(absl::string_view kind, absl::string_view name);

// Thread-safe. Its functions wait for the disk: call them on a thread that may wait, neither a lane's nor gRPC's.
class CheckpointStore {
 public:
  static constexpr int64_t kDefaultMaxBytes = int64_t{1} << 36;

  // Makes the directory if it is missing. `files` must outlive the store. No file over `max_bytes` is read.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(FileSystem& files, std::string directory,
                                                               int64_t max_bytes = kDefaultMaxBytes);

  // Replaces a checkpoint of that name. INVALID_ARGUMENT: the name. RESOURCE_EXHAUSTED: the disk is full; the old
  // checkpoint is untouched.
  absl::StatusOr<CheckpointSummary> Save(absl::string_view name, const Checkpoint& checkpoint);
  // Tensors lie in `host_allocator`'s memory. NOT_FOUND lists the closest names. DATA_LOSS: a file is missing, damaged
  // or of a newer format; says which. NOT_FOUND also for operators that this server does not have.
  absl::StatusOr<Checkpoint> Load(absl::string_view name, Allocator& host_allocator) const;
  // Sorted by name. Directories without a whole checkpoint are left out.
  absl::StatusOr<std::vector<CheckpointSummary>> List() const;
  // NOT_FOUND lists the closest names.
  absl::Status Delete(absl::string_view name);

 private:
  CheckpointStore(FileSystem& files, std::string directory, int64_t max_bytes)
      : files_(files), directory_(std::move(directory)), max_bytes_(max_bytes) {}

  absl::StatusOr<std::string> CurrentVersion(absl::string_view name) const;
  absl::Status NotFound(absl::string_view name) const;

  FileSystem& files_;
  const std::string directory_;
  const int64_t max_bytes_;
  mutable std::mutex mu_;  // Held by every call: two saves of one name, or a save and a load, do not meet.
};

}  // namespace gluond

#endif  // ENGINE_STORE_CHECKPOINT_H_
