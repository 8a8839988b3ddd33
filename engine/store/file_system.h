// FileSystem: the few file operations that a durable write needs, as an interface, so that a test can stop the program
// before and after each of them. Thread-safe. Paths are the caller's; errors name them. No operation follows a symbolic
// link at the end of its path (but a path that ends with '/' goes to the link's target).

#ifndef ENGINE_STORE_FILE_SYSTEM_H_
#define ENGINE_STORE_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond {

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // Closes the file, which may not be on the disk yet.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Returns when everything appended is on the disk.
  virtual absl::Status Sync() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // The size when the file was opened.
  virtual int64_t size() const = 0;
  // Reads exactly `bytes`, from the end of the last call. DATA_LOSS: the file ends before.
  virtual absl::Status Read(void* to, size_t bytes) = 0;
  // The next Read begins so many bytes later.
  virtual absl::Status Skip(int64_t bytes) = 0;
};

// Releases in its destructor what FileSystem::Lock has locked.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Makes an empty file and replaces an old one. RESOURCE_EXHAUSTED (here and in Append): the disk is full.
  // FAILED_PRECONDITION (here, in Open and in Lock): a link, a directory or a pipe stands there.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Atomically; replaces a file of that name. Durable only after SyncDirectory.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // OK if the directory exists. FAILED_PRECONDITION: the path is something else.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  virtual absl::Status RemoveTree(const std::string& path) = 0;  // OK when there is nothing.

  // NOT_FOUND: no such file.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) const = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& directory) const = 0;  // Sorted.
  virtual bool IsDirectory(const std::string& path) const = 0;
  // The sizes of all files in a directory and below; no link is followed.
  virtual absl::StatusOr<int64_t> TreeBytes(const std::string& directory) const = 0;
  // Bytes of the disk that holds a directory; `available`: to this process.
  struct DiskSpace {
    int64_t capacity = 0;
    int64_t available = 0;
  };
  virtual absl::StatusOr<DiskSpace> Space(const std::string& directory) const = 0;

  // Waits until no other holder, in this process or another, has the lock of that name; shared holders have it
  // together. A process that dies gives its locks back. The exclusive holder may remove the lock's file.
  enum class LockMode { kShared, kExclusive };
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, LockMode mode) const = 0;
};

// The whole file. RESOURCE_EXHAUSTED: it has more than `max_bytes`.
absl::StatusOr<std::string> ReadWhole(ReadableFile& file, absl::string_view name, int64_t max_bytes);
// The same of a path; as Open.
absl::StatusOr<std::string> ReadWhole(const FileSystem& files, const std::string& path, int64_t max_bytes);

// The computer's own file system. Lives until exit.
FileSystem& LocalFileSystem();

}  // namespace gluond

#endif  // ENGINE_STORE_FILE_SYSTEM_H_
