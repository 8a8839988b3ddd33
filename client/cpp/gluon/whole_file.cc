#include "client/cpp/gluon/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace gluond::client {
namespace {

constexpr size_t kReadPiece = size_t{1} << 20;

absl::Status CannotWrite(const std::string& path) {
  return absl::PermissionDeniedError(absl::StrCat("'", path, "' cannot be written: ", std::strerror(errno)));
}

}  // namespace

absl::Status WriteWhole(const std::string& path, absl::string_view bytes) {
  struct stat found;
  const bool exists = stat(path.c_str(), &found) == 0;
  const bool is_ordinary = !exists || S_ISREG(found.st_mode);
  std::error_code ignored;
  const std::string target = exists ? std::filesystem::canonical(path, ignored).string() : path;
  std::string aside = target;
  int file;
  if (is_ordinary) {
    absl::StrAppend(&aside, "-XXXXXX");
    file = mkostemp(aside.data(), O_CLOEXEC);
    const mode_t mask = umask(0);
    umask(mask);
    if (file >= 0) fchmod(file, exists ? found.st_mode & 07777 : 0666 & ~mask);
  } else {
    file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  }
  if (file < 0) return CannotWrite(path);
  bool is_written = true;
  while (!bytes.empty() && is_written) {
    const ssize_t size = write(file, bytes.data(), bytes.size());
    if (size >= 0) {
      bytes.remove_prefix(static_cast<size_t>(size));
    } else {
      is_written = errno == EINTR;
    }
  }
  if (is_ordinary) is_written = is_written && fsync(file) == 0;
  is_written = close(file) == 0 && is_written;
  if (is_ordinary) is_written = is_written && rename(aside.c_str(), target.c_str()) == 0;
  if (is_written) return absl::OkStatus();
  const absl::Status status = CannotWrite(path);
  if (is_ordinary) unlink(aside.c_str());
  return status;
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string bytes;
  struct stat found;
  if (file >= 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode))
    bytes.reserve(static_cast<size_t>(found.st_size) + kReadPiece);
  ssize_t size = file < 0 ? -1 : 1;
  while (size > 0) {
    const size_t before = bytes.size();
    bytes.resize(before + kReadPiece);
    do {
      size = read(file, &bytes[before], kReadPiece);
    } while (size < 0 && errno == EINTR);
    bytes.resize(before + static_cast<size_t>(size < 0 ? 0 : size));
  }
  const int error = errno;
  if (file >= 0) close(file);
  if (size < 0) return absl::NotFoundError(absl::StrCat("'", path, "' cannot be read: ", std::strerror(error)));
  return bytes;
}

}  // namespace gluond::client
