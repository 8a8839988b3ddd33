#include "server/signals.h"

#include <csignal>

namespace gluond::server {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void BlockSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int WaitForStop() {
  const sigset_t set = StopSignals();
  int signal = 0;
  sigwait(&set, &signal);
  return signal;
}

}  // namespace gluond::server
