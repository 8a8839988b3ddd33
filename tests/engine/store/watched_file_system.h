// A file system on which a test can stop a save before, within and after each of its operations.

#ifndef TESTS_ENGINE_STORE_WATCHED_FILE_SYSTEM_H_
#define TESTS_ENGINE_STORE_WATCHED_FILE_SYSTEM_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/status_macros.h"
#include "engine/store/file_system.h"

namespace gluond {

// What happens at an operation that writes. `kind` says which, `path` where; for a write, `half` writes half of it.
struct Operation {
  const char* kind;
  std::string path;
  std::function<absl::Status()> run;
  std::function<void()> half = [] {};
};

// The local file system, where each operation that writes goes through `perform`.
class WatchedFileSystem : public FileSystem {
 public:
  using Perform = std::function<absl::Status(const Operation&)>;
  explicit WatchedFileSystem(Perform perform) : perform_(std::move(perform)) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    std::unique_ptr<WritableFile> file;
    RETURN_IF_ERROR(perform_({"create", path, [&] {
                                ASSIGN_OR_RETURN(file, local_.Create(path));
                                return absl::OkStatus();
                              }}));
    return std::make_unique<File>(std::move(file), path, perform_);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return perform_({"rename", to, [&] { return local_.Rename(from, to); }});
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return perform_({"sync directory", path, [&] { return local_.SyncDirectory(path); }});
  }
  absl::Status MakeDirectory(const std::string& path) override {
    return perform_({"make directory", path, [&] { return local_.MakeDirectory(path); }});
  }
  absl::Status RemoveTree(const std::string& path) override {
    return perform_({"remove", path, [&] { return local_.RemoveTree(path); }});
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) const override { return local_.Open(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override { return local_.List(path); }
  bool IsDirectory(const std::string& path) const override { return local_.IsDirectory(path); }
  absl::StatusOr<int64_t> TreeBytes(const std::string& path) const override { return local_.TreeBytes(path); }
  absl::StatusOr<DiskSpace> Space(const std::string& path) const override { return local_.Space(path); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, LockMode mode) const override {
    return local_.Lock(path, mode);
  }

 private:
  class File : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, std::string path, const Perform& perform)
        : file_(std::move(file)), path_(std::move(path)), perform_(perform) {}
    absl::Status Append(absl::string_view bytes) override {
      return perform_({"write", path_, [&] { return file_->Append(bytes); },
                       [&] { file_->Append(bytes.substr(0, bytes.size() / 2)).IgnoreError(); }});
    }
    absl::Status Sync() override {
      return perform_({"sync", path_, [&] { return file_->Sync(); }});
    }

   private:
    const std::unique_ptr<WritableFile> file_;
    const std::string path_;
    const Perform& perform_;
  };

  FileSystem& local_ = LocalFileSystem();
  const Perform perform_;
};

}  // namespace gluond

#endif  // TESTS_ENGINE_STORE_WATCHED_FILE_SYSTEM_H_
