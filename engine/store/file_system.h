// FileSystem: the few file operations that a durable write needs, as an interface, so that a test can stop the process
// before and after each of them. Thread-safe. Paths are the caller's; errors name them.

#ifndef ENGINE_STORE_FILE_SYSTEM_H_
#define ENGINE_STORE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond {

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // Closes, without a promise that anything is on the disk.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Returns when everything appended is on the disk.
  virtual absl::Status Sync() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // An empty file, replacing what is there. RESOURCE_EXHAUSTED (here and in Append): the disk is full.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Atomically; replaces a file of that name. Durable only after SyncDirectory.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::Status MakeDirectory(const std::string& path) = 0;  // OK when it is there already.
  virtual absl::Status RemoveTree(const std::string& path) = 0;     // OK when there is nothing. Follows no links.

  // NOT_FOUND: no such file. RESOURCE_EXHAUSTED: longer than `max_bytes`.
  virtual absl::StatusOr<std::string> Read(const std::string& path, int64_t max_bytes) const = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& directory) const = 0;  // Sorted.
};

// The computer's own. Lives until exit.
FileSystem& LocalFileSystem();

}  // namespace gluond

#endif  // ENGINE_STORE_FILE_SYSTEM_H_
