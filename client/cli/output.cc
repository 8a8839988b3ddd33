#include "client/cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace gluond::cli {
namespace {

bool HasNoReader(int fd) {
  pollfd found = {fd, POLLOUT, 0};
  return poll(&found, 1, 0) == 1 && (found.revents & POLLERR) != 0;
}

}  // namespace

void OpenStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest number that is free.
    (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

absl::Status FlushOutput() {
  errno = 0;
  const bool written = std::cout.flush().good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  int why = errno;
  // The write that failed may have been an earlier one.
  if (!written && why == 0 && write(STDOUT_FILENO, "\n", 1) < 0) why = errno;
  if (written || HasNoReader(STDOUT_FILENO)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the standard output could not be written", why == 0 ? "" : absl::StrCat(": ", std::strerror(why))));
}

}  // namespace gluond::cli
