#include "server/rpc/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"
#include "server/rpc/json_line.h"

namespace gluond::server {
namespace {

// A descriptor that fails for good takes nothing: the lines are lost, and nobody could be told.
void WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // Another process that shares the descriptor may have made it non-blocking.
      pollfd waits = {fd, POLLOUT, 0};
      poll(&waits, 1, /*timeout=*/-1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

std::string DroppedLine(int64_t dropped) {
  return absl::StrCat(BeginJsonLine("log_lines_dropped"), ",\"lines\":", dropped, "}\n");
}

}  // namespace

struct LogWriter::State {
  State(int fd, size_t most_bytes) : fd(fd), most_bytes(most_bytes) {}

  const int fd;
  const size_t most_bytes;

  Mutex mu;
  CondVar changed;
  std::string queue ABSL_GUARDED_BY(mu);
  size_t writing_bytes ABSL_GUARDED_BY(mu) = 0;
  int64_t dropped ABSL_GUARDED_BY(mu) = 0;
  bool started ABSL_GUARDED_BY(mu) = false;
  bool ending ABSL_GUARDED_BY(mu) = false;

  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return queue.empty() && writing_bytes == 0 && dropped == 0; }
};

LogWriter::LogWriter(int fd, size_t queue_bytes) : state_(std::make_shared<State>(fd, queue_bytes)) {}

LogWriter::~LogWriter() {
  {
    MutexLock lock(state_->mu);
    state_->ending = true;
  }
  state_->changed.NotifyAll();
}

void LogWriter::Write(absl::string_view line) {
  {
    MutexLock lock(state_->mu);
    if (state_->queue.size() + state_->writing_bytes + line.size() > state_->most_bytes) {
      ++state_->dropped;
    } else {
      state_->queue.append(line.data(), line.size());
    }
    // Detached: nobody can join a thread that a full pipe holds.
    if (!std::exchange(state_->started, true)) std::thread(&LogWriter::Loop, state_).detach();
  }
  state_->changed.NotifyAll();
}

bool LogWriter::Flush(std::chrono::milliseconds timeout) {
  MutexLock lock(state_->mu);
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!state_->idle() && state_->changed.WaitUntil(state_->mu, until)) continue;
  return state_->idle();
}

void LogWriter::Loop(const std::shared_ptr<State>& state) {
  MutexLock lock(state->mu);
  for (;;) {
    while (!state->ending && state->idle()) state->changed.Wait(state->mu);
    if (state->ending) return;
    // Lines are dropped while the queue is full, so they come after all lines in it.
    std::string batch = std::exchange(state->queue, {});
    if (const int64_t dropped = std::exchange(state->dropped, 0); dropped > 0) batch += DroppedLine(dropped);
    state->writing_bytes = batch.size();
    lock.Unlock();
    WriteAll(state->fd, batch);
    lock.Lock();
    state->writing_bytes = 0;
    state->changed.NotifyAll();
  }
}

}  // namespace gluond::server
