#include "server/signals.h"

#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace gluond::server {
namespace {

sem_t g_arrived;  // A semaphore is the one thing that a handler may post and a thread may wait for.
std::atomic<int> g_signal = 0;  // Two signals may be handled on two threads.

void OnSignal(int signal) {
  const int saved = errno;
  g_signal = signal;
  sem_post(&g_arrived);
  errno = saved;
}

}  // namespace

void CatchSignals() {
  sem_init(&g_arrived, /*pshared=*/0, /*value=*/0);
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int WaitForStop() {
  while (sem_wait(&g_arrived) != 0) {
  }
  return g_signal;
}

}  // namespace gluond::server
