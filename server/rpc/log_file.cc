#include "server/rpc/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

absl::StatusOr<int> OpenToAppend(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd < 0) {
    return absl::PermissionDeniedError(absl::StrCat("the log ", path, " cannot be written: ", std::strerror(errno)));
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::Open(const std::string& path, absl::string_view name,
                                                       std::chrono::milliseconds linger) {
  ASSIGN_OR_RETURN(const int fd, OpenToAppend(path));
  return std::unique_ptr<LogFile>(new LogFile(path, name, fd, linger));
}

LogFile::LogFile(std::string path, absl::string_view name, int fd, std::chrono::milliseconds linger)
    : path_(std::move(path)), name_(name), writer_(fd, LogWriter::kQueueBytes, linger) {
  struct stat found = {};
  if (fstat(fd, &found) == 0) inode_ = {found.st_dev, found.st_ino};
}

absl::Status LogFile::FollowMove() {
  struct stat found = {};
  if (stat(path_.c_str(), &found) == 0 && Inode(found.st_dev, found.st_ino) == inode_) return absl::OkStatus();
  const absl::StatusOr<int> fd = OpenToAppend(path_);
  if (!fd.ok()) return told_.exchange(true) ? absl::OkStatus() : fd.status();
  told_ = false;
  if (fstat(*fd, &found) == 0) inode_ = {found.st_dev, found.st_ino};
  writer_.GoOnIn(*fd);
  return absl::OkStatus();
}

}  // namespace gluond::server
