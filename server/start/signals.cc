#include "server/start/signals.h"

#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace gluond::server {
namespace {

sem_t g_arrived;  // A semaphore is the one thing that a handler may post and a thread may wait for.
constexpr int64_t kSameSignalNs = 250'000'000;

// Two signals may be handled on two threads.
std::atomic<int> g_signal = 0;
std::atomic<int64_t> g_first_ns = 0;  // 0: no signal has come.
std::atomic<bool> g_hung_up = false;

void OnSignal(int signal) {
  const int saved = errno;
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);  // A handler may call few functions; this is one of them, and _exit another.
  const int64_t now = int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  int64_t first = 0;
  if (g_first_ns.compare_exchange_strong(first, now)) {
    g_signal = signal;
    sem_post(&g_arrived);
  } else if (now - first > kSameSignalNs) {
    _exit(128 + signal);
  }
  errno = saved;
}

void OnHangup(int) {
  const int saved = errno;
  g_hung_up = true;
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
  action.sa_handler = &OnHangup;
  sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

int WaitForStop(const std::function<void()>& on_hangup) {
  while (g_signal == 0) {
    while (sem_wait(&g_arrived) != 0) {
    }
    if (g_hung_up.exchange(false)) on_hangup();
  }
  return g_signal;
}

}  // namespace gluond::server
