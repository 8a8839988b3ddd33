#include "server/signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace gluond::server {
namespace {

int g_pipe[2];  // The handler writes, WaitForStop reads.

void OnSignal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = write(g_pipe[1], &byte, 1);
  errno = saved;
}

}  // namespace

void CatchSignals() {
  if (pipe(g_pipe) != 0) return;
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int WaitForStop() {
  unsigned char byte = 0;
  while (read(g_pipe[0], &byte, 1) != 1) {
  }
  return byte;
}

}  // namespace gluond::server
