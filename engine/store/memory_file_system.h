// MemoryFileSystem: files in memory, for checkpoints that travel from one process to another and never see a disk.

#ifndef ENGINE_STORE_MEMORY_FILE_SYSTEM_H_
#define ENGINE_STORE_MEMORY_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/core/mutex.h"
#include "engine/store/file_system.h"

namespace gluond {

class MemoryFileSystem final : public FileSystem {
 public:
  using Files = std::map<std::string, std::shared_ptr<std::string>>;

  // All files by path, as they are now. Their bytes are not to be changed.
  Files files() const;
  int64_t bytes() const;
  // Makes a file of these bytes, and the directories above it.
  void Add(const std::string& path, std::string bytes);

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string&) override { return absl::OkStatus(); }
  absl::Status MakeDirectory(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) const override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) const override;
  bool IsDirectory(const std::string& path) const override;
  absl::StatusOr<int64_t> TreeBytes(const std::string& directory) const override;
  absl::StatusOr<DiskSpace> Space(const std::string&) const override { return DiskSpace{INT64_MAX, INT64_MAX}; }
  // Nobody else has these files: a lock is always free.
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string&, LockMode) const override {
    return std::make_unique<FileLock>();
  }

 private:
  mutable Mutex mu_;
  Files files_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> directories_ ABSL_GUARDED_BY(mu_);  // Without '/' at their ends.
};

}  // namespace gluond

#endif  // ENGINE_STORE_MEMORY_FILE_SYSTEM_H_
