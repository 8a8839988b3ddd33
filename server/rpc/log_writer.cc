#include "server/rpc/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
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

  std::mutex mu;  // Guards all that follows.
  std::condition_variable changed;
  std::string queue;
  size_t writing_bytes = 0;
  int64_t dropped = 0;
  bool started = false;
  bool ending = false;

  bool idle() const { return queue.empty() && writing_bytes == 0 && dropped == 0; }
};

LogWriter::LogWriter(int fd, size_t queue_bytes) : state_(std::make_shared<State>(fd, queue_bytes)) {}

LogWriter::~LogWriter() {
  {
    std::lock_guard lock(state_->mu);
    state_->ending = true;
  }
  state_->changed.notify_all();
}

void LogWriter::Write(absl::string_view line) {
  {
    std::lock_guard lock(state_->mu);
    if (state_->queue.size() + state_->writing_bytes + line.size() > state_->most_bytes) {
      ++state_->dropped;
    } else {
      state_->queue.append(line.data(), line.size());
    }
    // Detached: nobody can join a thread that a full pipe holds.
    if (!std::exchange(state_->started, true)) std::thread(&LogWriter::Loop, state_).detach();
  }
  state_->changed.notify_all();
}

bool LogWriter::Flush(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mu);
  return state_->changed.wait_for(lock, timeout, [this] { return state_->idle(); });
}

void LogWriter::Loop(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mu);
  for (;;) {
    state->changed.wait(lock, [&] { return state->ending || !state->idle(); });
    if (state->ending) return;
    // Lines are dropped while the queue is full, so they come after all lines in it.
    std::string batch = std::exchange(state->queue, {});
    if (const int64_t dropped = std::exchange(state->dropped, 0); dropped > 0) batch += DroppedLine(dropped);
    state->writing_bytes = batch.size();
    lock.unlock();
    WriteAll(state->fd, batch);
    lock.lock();
    state->writing_bytes = 0;
    state->changed.notify_all();
  }
}

}  // namespace gluond::server
