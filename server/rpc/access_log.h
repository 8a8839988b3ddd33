// AccessLog has one line of JSON for each call that is over, whatever became of it:
//
//   {"time":"2026-11-21T03:04:05.678Z","event":"call","level":"info","method":"/gluond.v1.TrainingService/TrainStep",
//    "code":"OK","caller":"alice","peer":"ipv4:10.0.0.7:51234","target":"digits","seconds":0.004211,
//    "queue_seconds":0.000102,"compute_seconds":0.003544,"callback_seconds":0.000000,"bytes_in":25088,"bytes_out":120,
//    "messages_in":1,"messages_out":1,"request_id":"4f5c...","trace_id":"...","span_id":"...","parent_id":"..."}
//
// Members that nobody knows are left out: the caller where nobody asks who calls, the phases of a call that has none. A
// stream is one call. The sink takes each line at once or counts it (log_writer.h), so no call waits. Thread-safe.

#ifndef SERVER_RPC_ACCESS_LOG_H_
#define SERVER_RPC_ACCESS_LOG_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/rpc/log.h"
#include "server/rpc/trace_context.h"

namespace gluond::server {

// The times of a call in its parts; zero: it has no such part.
struct CallPhases {
  std::chrono::nanoseconds queue{0};  // The wait for a model and a device's lane.
  std::chrono::nanoseconds compute{0};
  std::chrono::nanoseconds callback{0};  // The part of `compute` in which clients computed their operators.
};

// A call that is over.
struct EndedCall {
  absl::string_view method, caller, peer, target, request_id;
  const TraceContext& trace;
  absl::StatusCode code;
  LogLevel level;
  std::chrono::nanoseconds time;  // From its headers to its last word.
  CallPhases phases;
  int64_t bytes_in, bytes_out;  // Messages' sizes on the wire.
  int64_t messages_in, messages_out;
};

class AccessLog {
 public:
  // `levels` outlives this.
  explicit AccessLog(const LogLevels& levels) : levels_(levels) {}

  // From here on lines go to `sink`. One of `every` calls that went well has a line. Before the first call.
  void Open(LogSink sink, int64_t every) {
    sink_ = std::move(sink);
    every_ = every;
  }
  bool is_open() const { return sink_ != nullptr; }

  // Whether a call that ended so has a line. To be asked once for each call.
  bool Wants(LogLevel level);
  void Ended(const EndedCall& call) const;

 private:
  const LogLevels& levels_;
  LogSink sink_;  // Null: nobody wants lines.
  int64_t every_ = 1;
  std::atomic<int64_t> went_well_ = 0;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_ACCESS_LOG_H_
