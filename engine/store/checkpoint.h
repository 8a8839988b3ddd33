// CheckpointStore: checkpoints in one directory. A checkpoint is a model, and its trainer if it has one, at one moment;
// a run that resumes from it equals, bit for bit, the run that went on.
//
//   ASSIGN_OR_RETURN(auto store, CheckpointStore::Open(LocalFileSystem(), directory));
//   trainer->Snapshot([&](auto state) { ... on another thread: store->Save("lenet-epoch-3", checkpoint) ... });
//   ASSIGN_OR_RETURN(Checkpoint checkpoint, store->Load("lenet-epoch-3", memory));
//   ASSIGN_OR_RETURN(auto model, Model::Create(checkpoint.model.definition, options));
//   model->Restore(std::move(checkpoint.model), ...);
//
// Names are those of stored_name.h. On disk: <directory>/<name>/v<number>/ holds graph.json, parameters.safetensors,
// optimizer.safetensors (with a trainer), and manifest.json with the size and checksum of each; <directory>/<name>/CURRENT names
// the version and the checksum of its manifest. Save writes a new version, makes the version durable, and then replaces CURRENT by
// a rename. If the program or the power stops at any moment, the old checkpoint or the new one is there, whole. Save then removes
// the old version; the next Open, or the next Save of that name, removes the files of a stopped save.
//
// Several processes may share the directory. <directory>/.lock-<name> keeps a save apart from all other uses of that
// name; other names do not wait for it, and List never waits.

#ifndef ENGINE_STORE_CHECKPOINT_H_
#define ENGINE_STORE_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/model.h"
#include "engine/store/file_system.h"
#include "engine/store/json.h"
#include "engine/store/manifest.h"
#include "engine/store/store_quota.h"
#include "engine/store/stored_name.h"
#include "engine/train/trainer.h"

namespace gluond {

class VersionReader;

struct Checkpoint {
  ModelState model;
  std::optional<TrainerState> trainer;
  std::optional<Hosting> hosting = {};
  std::optional<int64_t> virtual_shards = {};  // A model of a group of servers has them.
  // The caller's own words about tensors that are no model's. With them `model` is parameters and random state alone.
  std::optional<Json> notes = {};
};

struct CheckpointSummary {
  std::string name;
  int64_t step = 0;  // 0 without a trainer.
  bool has_trainer = false;
  int64_t bytes = 0;  // All files'.
  int64_t saved_unix_seconds = 0;
  std::string revision;  // As CheckpointStore::Revision.
  std::string damage;    // Why its manifest cannot be read: only the name is known then. Empty: it can.
};

// Thread-safe. Its functions wait for the disk: call them on a thread that may wait, neither a lane's nor gRPC's.
class CheckpointStore {
 public:
  static constexpr int64_t kDefaultMaxBytes = int64_t{1} << 36;
  static constexpr size_t kMostAside = 3;

  // Makes the directory if it is missing; its parent must be there. `files` must outlive the store. No file over
  // `max_bytes` is read.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(FileSystem& files, std::string directory,
                                                               int64_t max_bytes = kDefaultMaxBytes,
                                                               const StoreLimits& limits = {});
  // Things that opening found in the place of the store's own, with what to remove. The store does without them.
  const std::vector<absl::Status>& faults() const { return faults_; }

  // A store in a folder of this one's directory, whose names are apart from this one's: they may be equal, and neither
  // lists or deletes the other's. `folder` begins with a dot, as no name does. Both have this one's limits together. Where the
  // folder cannot be made, that is a fault, and the errors of the store's functions say so.
  std::unique_ptr<CheckpointStore> OpenApart(absl::string_view folder) const;

  // Replaces a checkpoint of that name; without `overwrite` that is ALREADY_EXISTS. INVALID_ARGUMENT: the name, or a
  // model that could not be read back. RESOURCE_EXHAUSTED: it would exceed a limit, and nothing was written,
  // or the disk is full. DATA_LOSS: the old checkpoint is so damaged that it must be deleted first. After an error the
  // old checkpoint is as it was (or, if the disk fails in the last moment, the new one is whole).
  absl::StatusOr<CheckpointSummary> Save(absl::string_view name, const Checkpoint& checkpoint, bool overwrite = true);
  // Tensors lie in `host_allocator`'s memory. NOT_FOUND lists the closest names, or names an operator that this server
  // does not have. DATA_LOSS: a file is missing or damaged; says which. FAILED_PRECONDITION: a newer server wrote it.
  // RESOURCE_EXHAUSTED: no memory, or a file over the limit.
  absl::StatusOr<Checkpoint> Load(absl::string_view name, Allocator& host_allocator) const;
  // Sorted by name; of a damaged checkpoint the name and why. Does not wait for a save: lists the old version until the new
  // one is whole.
  absl::StatusOr<std::vector<CheckpointSummary>> List() const;
  // Checkpoint::notes, without the tensors. NOT_FOUND lists the closest names. DATA_LOSS: the manifest is damaged, or has
  // none.
  absl::StatusOr<Json> ReadNotes(absl::string_view name) const;
  // A text that each Save of the name changes. Does not wait for a save. NOT_FOUND lists the closest names. DATA_LOSS: the
  // checkpoint is damaged.
  absl::StatusOr<std::string> Revision(absl::string_view name) const;
  // The checksum of the manifest, which has those of all other files. As Revision.
  absl::StatusOr<uint32_t> Checksum(absl::string_view name) const;
  // A file of the checkpoint whose manifest has this checksum, for another machine, which has it with LoadModel. Does not wait for a
  // save. NOT_FOUND: the checkpoint has another checksum by now, or no such file.
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenFile(absl::string_view name, uint32_t checksum, absl::string_view file) const;
  // The model of a checkpoint whose files `reader` finds, by the checksum of the manifest. Errors as of Load, without its name.
  static absl::StatusOr<ModelState> LoadModel(const VersionReader& reader, uint32_t checksum, Allocator& host_allocator);
  // Whether there is a checkpoint of that name, be it damaged. Does not wait for a save.
  bool Has(absl::string_view name) const;
  // All names, sorted, also those of damaged checkpoints.
  absl::StatusOr<std::vector<std::string>> Names() const;
  // Deletes damaged checkpoints, too. NOT_FOUND lists the closest names. ABORTED, with the reason VERSION_CHANGED: the
  // revision is not the `expected` one.
  absl::Status Delete(absl::string_view name, const std::optional<std::string>& expected = std::nullopt);
  // Makes room for another checkpoint of that name: renames its folder, damaged or not, to .NAME.1, or the number after the
  // last one, which is no checkpoint. Returns the new path. The last kMostAside of a name stay; the ones before are deleted.
  // NOT_FOUND lists the closest names.
  absl::StatusOr<std::string> SetAside(absl::string_view name);
  // The bytes of this store, those in its directory that lie apart, and those that are being saved.
  int64_t UsedBytes() const { return quota_->UsedBytes(); }
  // The bytes of checkpoints that were set aside, among them.
  int64_t AsideBytes() const { return quota_->AsideBytes(); }

 private:
  // The contents of CURRENT.
  struct Current {
    int64_t version = 0;
    uint32_t manifest_crc = 0;

    std::string revision() const { return absl::StrCat(version, " ", manifest_crc); }
    bool operator==(const Current&) const = default;
  };

  CheckpointStore(FileSystem& files, const std::string& directory, int64_t max_bytes, std::shared_ptr<StoreQuota> quota,
                  std::string folder)
      : files_(files), directory_(directory + "/"), max_bytes_(max_bytes), quota_(std::move(quota)), folder_(std::move(folder)) {}

  // Makes the directory if it is missing, and removes the files of stopped saves.
  absl::Status Prepare();

  std::string Path(absl::string_view name) const;
  std::string LockPath(absl::string_view name) const;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(absl::string_view name, FileSystem::LockMode mode) const;
  // Removes the lock's file if there is no such checkpoint. Requires: the caller holds the exclusive lock.
  void RemoveUnusedLock(absl::string_view name);
  absl::Status MissingCheckpoint(absl::string_view name) const;
  // NOT_FOUND: there is no checkpoint of that name.
  absl::StatusOr<Current> ReadCurrent(absl::string_view name) const;
  absl::StatusOr<Manifest> ReadManifest(absl::string_view name, const Current& current, std::string* version_directory) const;
  static absl::StatusOr<Manifest> ReadManifest(const VersionReader& reader, uint32_t checksum);
  // The manifest of a version that is current at some moment of the call. Takes no lock.
  absl::StatusOr<Manifest> ReadManifestUnlocked(absl::string_view name, Current* of = nullptr) const;
  static absl::StatusOr<ModelDefinition> ReadDefinition(const VersionReader& reader, const Manifest& manifest);
  absl::StatusOr<Checkpoint> LoadLocked(absl::string_view name, Allocator& host_allocator) const;

  absl::StatusOr<CheckpointSummary> SaveLocked(absl::string_view name, const Checkpoint& checkpoint, bool overwrite);
  // Writes a version, with the next CURRENT beside it, all durable.
  absl::StatusOr<Manifest> WriteVersion(const std::string& directory, int64_t version, const Checkpoint& checkpoint);
  absl::Status Publish(const std::string& directory);
  // Removes all versions but `keep`, and no other files.
  void RemoveOthers(const std::string& directory, int64_t keep);
  void RemoveIfEmpty(const std::string& directory);
  bool IsOurVersion(const std::string& directory, const std::string& entry) const;
  absl::Status RemoveLeftovers();
  // The numbers under which a name's checkpoints were set aside, sorted.
  absl::StatusOr<std::vector<int64_t>> AsideNumbers(absl::string_view name) const;

  FileSystem& files_;
  const std::string directory_;  // Ends with '/': it may itself be a symbolic link.
  const int64_t max_bytes_;
  const std::shared_ptr<StoreQuota> quota_;
  const std::string folder_;          // Empty, or with a '/' at its end: this store's place in the quota's directory.
  std::vector<absl::Status> faults_;  // Set before the store is shared.
};

}  // namespace gluond

#endif  // ENGINE_STORE_CHECKPOINT_H_
