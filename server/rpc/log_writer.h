// LogWriter writes lines to a file descriptor on a thread of its own, so that no caller waits for their reader: a pipe
// that nobody empties stops that thread alone. Lines beyond the queue's bytes are dropped; when there is room again,
// one line says how many. Thread-safe.
//
//   LogWriter log(STDERR_FILENO);
//   log.Write("a line\n");

#ifndef SERVER_RPC_LOG_WRITER_H_
#define SERVER_RPC_LOG_WRITER_H_

#include <chrono>
#include <cstddef>
#include <memory>

#include "absl/strings/string_view.h"

namespace gluond::server {

class LogWriter {
 public:
  static constexpr size_t kQueueBytes = 1 << 20;

  // The descriptor must stay open for as long as lines may be written to it: a write that blocks outlives the writer.
  explicit LogWriter(int fd, size_t queue_bytes = kQueueBytes);
  // Drops lines that Flush did not see written.
  ~LogWriter();

  // Takes a line, or some that belong together. Never blocks on the descriptor.
  void Write(absl::string_view line);

  // Whether everything was written within `timeout`.
  bool Flush(std::chrono::milliseconds timeout);

 private:
  struct State;
  static void Loop(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // Shared with the thread, which may be left behind in a write.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_LOG_WRITER_H_
