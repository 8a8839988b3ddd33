// LogWriter writes lines to a file descriptor on a thread of its own, so that no caller waits for their reader: a pipe
// that nobody empties stops that thread alone. Lines beyond the queue's bytes are dropped; when there is room again,
// one line says how many. The queue's last quarter is for lines that are to be kept. A log's file may be moved away while
// lines are written to it. Thread-safe.
//
// A writer that lingers waits for so long after a first line, so that the lines that follow are written together. To wake a
// thread for each line, and to write each alone, costs more than the rest of a short call.
//
//   LogWriter log(STDERR_FILENO);
//   log.Write("a line\n");

#ifndef SERVER_RPC_LOG_WRITER_H_
#define SERVER_RPC_LOG_WRITER_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

class LogWriter {
 public:
  static constexpr size_t kQueueBytes = 1 << 20;

  // The descriptor must stay open for as long as lines may be written to it: a write that blocks outlives the writer.
  explicit LogWriter(int fd, size_t queue_bytes = kQueueBytes, std::chrono::milliseconds linger = {});
  // Opens a file, or makes it. As LogToFile.
  static absl::StatusOr<std::unique_ptr<LogWriter>> Open(const std::string& path, std::chrono::milliseconds linger);
  // Drops lines that Flush did not see written.
  ~LogWriter();

  // Takes a line, or some that belong together. Never blocks on the descriptor. `is_kept`: where others are dropped, there is
  // room for it yet.
  void Write(absl::string_view line, bool is_kept = false);

  // From here on it lingers for so long.
  void SetLinger(std::chrono::milliseconds linger);
  // Further lines go to `fd`, which becomes the writer's; the descriptor before is closed when no line is being written to it.
  void GoOnIn(int fd);
  // Where a file's path is another file by now, or none, further lines go to the file that it is, which is made.
  // One caller at a time. PERMISSION_DENIED: it cannot be written; further lines go where they went. It is told once.
  absl::Status FollowMove();
  // The lines so far that were dropped, or could not be written.
  int64_t lines_dropped() const;
  // Whether a further line has room, and the last ones that were to be written were, to the file of the path.
  bool is_written() const;

  // Whether everything was written within `timeout`.
  bool Flush(std::chrono::nanoseconds timeout);

 private:
  struct State;
  static void Loop(const std::shared_ptr<State>& state);

  using Inode = std::pair<dev_t, ino_t>;
  std::string path_;  // Empty: the descriptor is no log's file.
  Inode inode_;
  std::atomic<bool> is_lost_ = false;   // The path cannot be written.
  const std::shared_ptr<State> state_;  // Shared with the thread, which may be left behind in a write.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_LOG_WRITER_H_
