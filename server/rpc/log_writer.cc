#include "server/rpc/log_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"
#include "engine/core/start_thread.h"
#include "engine/core/status_macros.h"
#include "server/rpc/json_line.h"

namespace gluond::server {
namespace {

// Returns the number of lines that a descriptor which fails, a full disk's for instance, did not take.
int64_t WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // Another process that shares the descriptor may have made it non-blocking.
      pollfd waits = {fd, POLLOUT, 0};
      poll(&waits, 1, /*timeout=*/-1);
    } else if (errno != EINTR) {
      return std::count(bytes.begin(), bytes.end(), '\n');
    }
  }
  return 0;
}

absl::StatusOr<int> OpenToAppend(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd >= 0) return fd;
  return absl::PermissionDeniedError(absl::StrCat("the log ", path, " cannot be written: ", std::strerror(errno)));
}

std::pair<dev_t, ino_t> InodeOf(int fd) {
  struct stat found = {};
  (void)fstat(fd, &found);
  return {found.st_dev, found.st_ino};
}

}  // namespace

struct LogWriter::State {
  State(int fd, size_t most_bytes, std::chrono::milliseconds linger) : most_bytes(most_bytes), linger(linger), fd(fd) {}

  const size_t most_bytes;

  Mutex mu;
  CondVar changed;
  std::chrono::milliseconds linger ABSL_GUARDED_BY(mu);
  int fd ABSL_GUARDED_BY(mu);
  int next_fd ABSL_GUARDED_BY(mu) = -1;  // -1: none.
  std::string queue ABSL_GUARDED_BY(mu);
  size_t writing_bytes ABSL_GUARDED_BY(mu) = 0;
  int64_t dropped ABSL_GUARDED_BY(mu) = 0;  // Lines that no line has told of yet.
  int64_t all_dropped ABSL_GUARDED_BY(mu) = 0;
  bool fails ABSL_GUARDED_BY(mu) = false;  // The last write was not taken.
  int flushing ABSL_GUARDED_BY(mu) = 0;    // Threads that wait for the end of the queue.
  bool started ABSL_GUARDED_BY(mu) = false;
  bool ending ABSL_GUARDED_BY(mu) = false;

  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return queue.empty() && writing_bytes == 0 && dropped == 0; }
  bool hurries() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return ending || flushing > 0 || queue.size() > most_bytes / 2; }
  size_t BytesFor(bool is_kept) const { return is_kept ? most_bytes : most_bytes - most_bytes / 4; }
  // Waits until there is something to write, and for more that may come with it.
  void Await() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    while (!ending && idle()) changed.Wait(mu);
    if (linger.count() == 0) return;
    const auto until = std::chrono::steady_clock::now() + linger;
    while (!hurries() && changed.WaitUntil(mu, until)) continue;
  }
  void TakeNextFd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (next_fd < 0) return;
    close(fd);
    fd = std::exchange(next_fd, -1);
  }
};

LogWriter::LogWriter(int fd, size_t queue_bytes, std::chrono::milliseconds linger)
    : state_(std::make_shared<State>(fd, queue_bytes, linger)) {}

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Open(const std::string& path, std::chrono::milliseconds linger) {
  ASSIGN_OR_RETURN(const int fd, OpenToAppend(path));
  auto writer = std::make_unique<LogWriter>(fd, kQueueBytes, linger);
  writer->path_ = path;
  writer->inode_ = InodeOf(fd);
  return writer;
}

absl::Status LogWriter::FollowMove() {
  struct stat found = {};
  const bool is_there = path_.empty() || (stat(path_.c_str(), &found) == 0 && Inode(found.st_dev, found.st_ino) == inode_);
  if (is_there) return absl::OkStatus();
  const absl::StatusOr<int> fd = OpenToAppend(path_);
  if (!fd.ok()) return is_lost_.exchange(true) ? absl::OkStatus() : fd.status();
  is_lost_ = false;
  inode_ = InodeOf(*fd);
  GoOnIn(*fd);
  return absl::OkStatus();
}

LogWriter::~LogWriter() {
  {
    MutexLock lock(state_->mu);
    state_->ending = true;
  }
  state_->changed.NotifyAll();
}

void LogWriter::Write(absl::string_view line, bool is_kept) {
  bool wakes = false;
  {
    MutexLock lock(state_->mu);
    const bool was_idle = state_->idle(), hurried = state_->hurries();
    if (state_->queue.size() + state_->writing_bytes + line.size() > state_->BytesFor(is_kept)) {
      ++state_->dropped;
      ++state_->all_dropped;
    } else {
      state_->queue.append(line.data(), line.size());
    }
    // Detached: nobody can join a thread that a full pipe holds. Where it cannot be started, the next line tries again.
    if (std::thread writes; !state_->started && TryToStart(&writes, [state = state_] { Loop(state); })) {
      state_->started = true;
      writes.detach();
    }
    wakes = was_idle || (!hurried && state_->hurries());
  }
  if (wakes) state_->changed.NotifyAll();
}

void LogWriter::SetLinger(std::chrono::milliseconds linger) {
  MutexLock lock(state_->mu);
  state_->linger = linger;
}

void LogWriter::GoOnIn(int fd) {
  MutexLock lock(state_->mu);
  if (state_->next_fd >= 0) close(state_->next_fd);
  state_->next_fd = fd;
}

int64_t LogWriter::lines_dropped() const {
  MutexLock lock(state_->mu);
  return state_->all_dropped;
}

bool LogWriter::is_written() const {
  MutexLock lock(state_->mu);
  return !is_lost_ && !state_->fails && state_->queue.size() + state_->writing_bytes < state_->BytesFor(/*is_kept=*/false);
}

bool LogWriter::Flush(std::chrono::nanoseconds timeout) {
  MutexLock lock(state_->mu);
  const auto until = std::chrono::steady_clock::now() + timeout;
  ++state_->flushing;
  state_->changed.NotifyAll();
  while (!state_->idle() && state_->changed.WaitUntil(state_->mu, until)) continue;
  --state_->flushing;
  return state_->idle();
}

void LogWriter::Loop(const std::shared_ptr<State>& state) {
  MutexLock lock(state->mu);
  for (;;) {
    state->Await();
    if (state->ending) return;
    state->TakeNextFd();
    // Lines are dropped while the queue is full, so they come after all lines in it.
    std::string batch = std::exchange(state->queue, {});
    if (const int64_t dropped = std::exchange(state->dropped, 0); dropped > 0) {
      absl::StrAppend(&batch, BeginJsonLine("log_lines_dropped", LogLevel::kWarning), ",\"lines\":", dropped, "}\n");
    }
    state->writing_bytes = batch.size();
    const int fd = state->fd;
    lock.Unlock();
    const int64_t lost = WriteAll(fd, batch);
    lock.Lock();
    state->all_dropped += lost;
    state->fails = lost > 0;
    state->writing_bytes = 0;
    state->changed.NotifyAll();
  }
}

}  // namespace gluond::server
