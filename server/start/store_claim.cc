#include "server/start/store_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// A killed process with much memory is there for so long at most before the kernel has taken it apart.
constexpr std::chrono::seconds kPatience{3};
constexpr std::chrono::milliseconds kLookAgain{20};

}  // namespace

absl::StatusOr<StoreClaim> ClaimStore(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return FailedPrecondition("--store_dir=", folder, " cannot be opened: ", std::strerror(errno));
  }
  StoreClaim claim(nullptr, [fd](void*) { close(fd); });
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EWOULDBLOCK && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kLookAgain);
    } else if (error == EWOULDBLOCK) {
      return FailedPrecondition("--store_dir=", folder,
                                " is another server's, which runs; stop that one first, or give each a folder of its own");
    } else if (error != EINTR) {
      return FailedPrecondition("--store_dir=", folder, " cannot be locked: ", std::strerror(error));
    }
  }
  return claim;
}

}  // namespace gluond::server
