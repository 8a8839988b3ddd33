// The level of each line of a log. LogLevels says which lines on calls are wanted, by the way in which a call has ended. An
// operator may change it while the server runs. Thread-safe, without a lock.

#ifndef SERVER_RPC_LOG_LEVELS_H_
#define SERVER_RPC_LOG_LEVELS_H_

#include <array>
#include <atomic>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

enum class LogLevel {
  kInfo,     // The call went well.
  kWarning,  // It was refused, or has failed by its caller's doing.
  kError,    // The server could not do it, by no doing of its caller. Those alone wake somebody (deploy/prometheus).
};

// Errors with one code may differ in their reasons (engine/core/error_info.h), which tell who could have done something.
LogLevel LevelOf(absl::StatusCode code, absl::string_view reason);
LogLevel LevelOf(const absl::Status& status);

inline absl::string_view NameOf(LogLevel level) {
  static constexpr absl::string_view kNames[] = {"info", "warning", "error"};
  return kNames[static_cast<size_t>(level)];
}

class LogLevels {
 public:
  bool On(LogLevel level) const { return on_[static_cast<size_t>(level)].load(std::memory_order_relaxed); }
  void Set(LogLevel level, bool on) { on_[static_cast<size_t>(level)].store(on, std::memory_order_relaxed); }

 private:
  std::array<std::atomic<bool>, 3> on_ = {true, true, true};
};

}  // namespace gluond::server

#endif  // SERVER_RPC_LOG_LEVELS_H_
