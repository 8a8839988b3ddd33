// The life of a process that serves: it starts a server, tells where that listens, waits for a signal, and drains.

#ifndef SERVER_PROCESS_H_
#define SERVER_PROCESS_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "server/options.h"

namespace gluond::server {

// A reader that takes no lines of the log for so long does not want them.
constexpr std::chrono::seconds kLastWords{2};

struct ProcessOptions {
  std::string port_file;           // Gets the port. Empty: none does.
  std::chrono::seconds lame_duck;  // As of Server::Drain.
  std::chrono::seconds grace;
  bool exit_on_device_error = false;
};

// The process's exit status: 0, or 3 where calls had to be cut, 4 where a GPU has failed, 5 where models could not be saved.
// Errors: as Server::Start. INVALID_ARGUMENT: the port's file cannot be written.
absl::StatusOr<int> RunServer(ServerOptions options, const ProcessOptions& process);

}  // namespace gluond::server

#endif  // SERVER_PROCESS_H_
