#include "server/config/operator_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

constexpr size_t kPiece = 64 << 10;

absl::Status SystemError() { return NotFound(std::strerror(errno)); }

absl::StatusOr<std::string> ReadAll(int file, size_t most_bytes) {
  const absl::Status too_long = NotFound("it has more than ", most_bytes, " bytes");
  struct stat facts = {};
  if (fstat(file, &facts) != 0) return SystemError();
  if (!S_ISREG(facts.st_mode)) return NotFound("it is no regular file");
  if (static_cast<uint64_t>(facts.st_size) > most_bytes) return too_long;
  std::string text;
  while (true) {  // A file may grow, and one of the kernel's has no size.
    const size_t had = text.size(), wanted = std::min(kPiece, most_bytes + 1 - had);
    text.resize(had + wanted);
    const ssize_t got = read(file, text.data() + had, wanted);
    text.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError();
    if (got == 0) return text;
    if (text.size() > most_bytes) return too_long;
  }
}

}  // namespace

absl::StatusOr<std::string> ReadOperatorFile(const std::string& path, size_t most_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return SystemError();
  absl::StatusOr<std::string> text = ReadAll(file, most_bytes);
  close(file);
  return text;
}

absl::StatusOr<std::string> ReadFlagsFile(absl::string_view flag, const std::string& path, size_t most_bytes) {
  if (path.empty()) return "";
  absl::StatusOr<std::string> text = ReadOperatorFile(path, most_bytes);
  if (!text.ok()) return Invalid(flag, "=", path, ": ", text.status().message());
  return text;
}

}  // namespace gluond::server
