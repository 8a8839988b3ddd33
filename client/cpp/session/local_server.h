// LocalServer: a gluond-server of this program's own, on a Unix socket that only its user can reach. It ends with the object, or
// with the program, however that ends.

#ifndef GLUOND_CLIENT_CPP_SESSION_LOCAL_SERVER_H_
#define GLUOND_CLIENT_CPP_SESSION_LOCAL_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gluond::client {

class LocalServer {
 public:
  // NOT_FOUND: there is no gluond-server at GLUOND_SERVER, or on PATH. UNAVAILABLE: it did not start; has its last lines.
  static absl::StatusOr<std::shared_ptr<LocalServer>> Start();
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;

  const std::string& address() const { return address_; }
  // UNAVAILABLE: it has ended; has its last lines.
  absl::Status Check();

 private:
  LocalServer() = default;
  std::string LastLines() const;
  bool HasEnded();  // Requires: mutex_.

  std::string folder_, address_;
  pid_t process_ = -1;
  pid_t owner_ = -1;
  int keeper_ = -1;  // The end of the pipe that the server's keeper reads.
  std::mutex mutex_;
  bool has_ended_ = false;
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_SESSION_LOCAL_SERVER_H_
