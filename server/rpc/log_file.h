// LogFile is a log's file, which may be moved away while lines are written to it. Thread-safe, but for FollowMove.

#ifndef SERVER_RPC_LOG_FILE_H_
#define SERVER_RPC_LOG_FILE_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/rpc/log_writer.h"

namespace gluond::server {

class LogFile {
 public:
  // Opens the file, or makes it. As LogToFile.
  static absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path, absl::string_view name,
                                                       std::chrono::milliseconds linger);

  const std::string& name() const { return name_; }
  LogWriter& writer() { return writer_; }
  const LogWriter& writer() const { return writer_; }
  // Whether lines get into the file of the path.
  bool is_written() const { return !told_ && writer_.is_written(); }

  // Where the path is another file by now, or none, further lines go to the file that it is, which is made. One caller at a
  // time. PERMISSION_DENIED: it cannot be written; further lines go where they went. It is told once.
  absl::Status FollowMove();

 private:
  using Inode = std::pair<dev_t, ino_t>;
  LogFile(std::string path, absl::string_view name, int fd, std::chrono::milliseconds linger);

  const std::string path_;
  const std::string name_;
  Inode inode_;
  std::atomic<bool> told_ = false;  // The path cannot be written.
  LogWriter writer_;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_LOG_FILE_H_
