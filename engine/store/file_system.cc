#include "engine/store/file_system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot ", what, " ", path, ": ", std::generic_category().message(error));
  switch (error) {
    case ENOENT: return absl::NotFoundError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE: return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENOTDIR:
    case EISDIR:
    case ENXIO: return absl::FailedPreconditionError(message);
    case EIO: return absl::DataLossError(message);
    default: return absl::InternalError(message);
  }
}

// A file descriptor; the destructor closes it.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) : fd_(std::exchange(other.fd_, -1)) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Opens without following a link at the end of the path.
absl::StatusOr<FileDescriptor> OpenDescriptor(absl::string_view what, const std::string& path, int flags) {
  int fd;
  do fd = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0644);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return Failed(what, path, errno);
  return FileDescriptor(fd);
}

// The same for a regular file: nobody waits for the other end of a pipe that stands in its place.
absl::StatusOr<FileDescriptor> OpenFile(absl::string_view what, const std::string& path, int flags, struct stat* stat) {
  ASSIGN_OR_RETURN(FileDescriptor fd, OpenDescriptor(what, path, flags | O_NONBLOCK));
  if (fstat(fd.get(), stat) != 0) return Failed(what, path, errno);
  if (!S_ISREG(stat->st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("cannot ", what, " ", path, ": it is no regular file"));
  }
  return fd;
}

absl::Status SyncDescriptor(const FileDescriptor& fd, const std::string& path) {
  return fsync(fd.get()) == 0 ? absl::OkStatus() : Failed("sync", path, errno);
}

class LocalWritableFile : public WritableFile {
 public:
  LocalWritableFile(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Failed("write", path_, errno);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override { return SyncDescriptor(fd_, path_); }

 private:
  const FileDescriptor fd_;
  const std::string path_;
};

class LocalReadableFile : public ReadableFile {
 public:
  LocalReadableFile(FileDescriptor fd, int64_t size, std::string path) : fd_(std::move(fd)), size_(size), path_(std::move(path)) {}

  int64_t size() const override { return size_; }
  absl::Status Skip(int64_t bytes) override {
    return lseek(fd_.get(), bytes, SEEK_CUR) < 0 ? Failed("read", path_, errno) : absl::OkStatus();
  }
  absl::Status Read(void* to, size_t bytes) override {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = read(fd_.get(), at, bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Failed("read", path_, errno);
      if (got == 0) return absl::DataLossError(absl::StrCat(path_, " ends ", bytes, " bytes too early"));
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  const FileDescriptor fd_;
  const int64_t size_;
  const std::string path_;
};

// Closing the descriptor releases the lock.
class LocalFileLock : public FileLock {
 public:
  explicit LocalFileLock(FileDescriptor fd) : fd_(std::move(fd)) {}

 private:
  const FileDescriptor fd_;
};

class Local : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    struct stat stat;
    ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile("create", path, O_WRONLY | O_CREAT | O_TRUNC, &stat));
    return std::make_unique<LocalWritableFile>(std::move(fd), path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return std::rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : Failed("rename to", to, errno);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    ASSIGN_OR_RETURN(const FileDescriptor fd, OpenDescriptor("open", path, O_RDONLY | O_DIRECTORY));
    return SyncDescriptor(fd, path);
  }
  absl::Status MakeDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    const int error = errno;
    if (error != EEXIST) return Failed("make directory", path, error);
    return IsDirectory(path) ? absl::OkStatus() : Failed("make directory", path, ENOTDIR);
  }
  absl::Status RemoveTree(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    return error ? Failed("remove", path, error.value()) : absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) const override {
    struct stat stat;
    ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile("read", path, O_RDONLY, &stat));
    return std::make_unique<LocalReadableFile>(std::move(fd), int64_t{stat.st_size}, path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) const override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) return Failed("list", directory, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
  bool IsDirectory(const std::string& path) const override {
    struct stat stat;
    return lstat(path.c_str(), &stat) == 0 && S_ISDIR(stat.st_mode);
  }
  absl::StatusOr<int64_t> TreeBytes(const std::string& directory) const override {
    std::error_code error;
    int64_t bytes = 0;
    for (std::filesystem::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
      std::error_code gone;  // Another save may be removing its old version.
      if (!it->is_regular_file(gone) || it->is_symlink(gone)) continue;
      const auto size = static_cast<int64_t>(it->file_size(gone));
      if (!gone) bytes += size;
    }
    if (error) return Failed("list", directory, error.value());
    return bytes;
  }
  absl::StatusOr<DiskSpace> Space(const std::string& directory) const override {
    struct statvfs disk;
    if (statvfs(directory.c_str(), &disk) != 0) return Failed("look at the disk of", directory, errno);
    const auto block = static_cast<int64_t>(disk.f_frsize);
    return DiskSpace{static_cast<int64_t>(disk.f_blocks) * block, static_cast<int64_t>(disk.f_bavail) * block};
  }

  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, LockMode mode) const override {
    while (true) {
      struct stat stat;
      ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile("lock", path, O_RDONLY | O_CREAT, &stat));
      int result;
      do result = flock(fd.get(), mode == LockMode::kShared ? LOCK_SH : LOCK_EX);
      while (result != 0 && errno == EINTR);
      if (result != 0) return Failed("lock", path, errno);
      if (fstat(fd.get(), &stat) != 0) return Failed("lock", path, errno);
      // The last holder may have removed the file: later callers would lock another one.
      if (stat.st_nlink > 0) return std::make_unique<LocalFileLock>(std::move(fd));
    }
  }
};

}  // namespace

absl::StatusOr<std::string> ReadWhole(ReadableFile& file, absl::string_view name, int64_t max_bytes) {
  if (file.size() > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(name, " has ", file.size(), " bytes, at most ", max_bytes, " are read"));
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  RETURN_IF_ERROR(file.Read(bytes.data(), bytes.size()));
  return bytes;
}

absl::StatusOr<std::string> ReadWhole(const FileSystem& files, const std::string& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  return ReadWhole(*file, path, max_bytes);
}

FileSystem& LocalFileSystem() {
  static Local& local = *new Local;
  return local;
}

}  // namespace gluond
