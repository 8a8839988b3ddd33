// Which lines of a log are written. LogLevels says which lines on calls are wanted, by the way in which a call has ended. An
// operator may change it while the server runs. LogLimit says which lines there are room for: for each reason kBurst at once, and
// then one every kEvery. It counts the others. Where reasons are not the program's own words their number is to be bounded. A
// reason beyond the bound takes the place of a reason that nothing is known of any more, or shares the lines of the reason
// "others". Thread-safe; LogLevels has no lock.

#ifndef SERVER_RPC_LOG_LIMIT_H_
#define SERVER_RPC_LOG_LIMIT_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/core/mutex.h"

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

class LogLimit {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kBurst = 50;
  static constexpr std::chrono::seconds kEvery{10};
  static constexpr char kOthers[] = "others";

  explicit LogLimit(size_t most_reasons = std::numeric_limits<size_t>::max()) : most_reasons_(most_reasons) {}

  // The number of lines left out since the last one of this reason; nothing: this one is left out, too.
  std::optional<int64_t> Admit(const std::string& reason, Clock::time_point now = Clock::now());

  // The numbers of lines left out, of the reasons that may have a line by now, or of all. Their counts begin anew.
  using Counts = std::vector<std::pair<std::string, int64_t>>;
  enum Which { kDue, kAll };
  Counts TakeLeftOut(Which which, Clock::time_point now = Clock::now());

 private:
  struct Reason {
    int64_t lines = kBurst;   // So many may be written at once,
    Clock::time_point since;  // and one more each kEvery from here on.
    int64_t left_out = 0;
  };
  static void Earn(Reason& reason, Clock::time_point now);
  static bool TakeLine(Reason& reason, Clock::time_point now);
  Reason& FindOrAdd(const std::string& reason, Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t most_reasons_;
  Mutex mu_;
  Clock::time_point made_room_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Reason> reasons_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_RPC_LOG_LIMIT_H_
