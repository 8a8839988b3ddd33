// Limits: the most that the server accepts, with the defaults. Each field is the flag of the same name (main.cc), and
// every error that a limit causes names the flag.
//
//   for (const LimitFlag& each : LimitFlags()) limits.*each.limit = ... the flag each.name ...;
//   RETURN_IF_ERROR(CheckLimits(limits));

#ifndef SERVER_START_LIMITS_H_
#define SERVER_START_LIMITS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace gluond::server {

// The longest message that gRPC and Protocol Buffers carry for sure.
constexpr int64_t kLargestMessage = int64_t{1} << 30;

struct Limits {
  int64_t max_memory_bytes = 0;                   // For the whole process. 0: three quarters of the machine's.
  int64_t max_message_bytes = int64_t{64} << 20;  // For one request or reply. At most 1 GiB.
  int64_t max_connections = 1024;
  int64_t max_requests = 1024;                    // At work or waiting.
  int64_t max_request_bytes = int64_t{1} << 30;   // For all requests at work or waiting.
  int64_t max_graph_nodes = 200'000;              // For one expanded graph.
  int64_t max_model_bytes = int64_t{8} << 30;     // For the tensors of one model.
  int64_t max_tensor_bytes = int64_t{1} << 40;    // For all tensors on one device; never more than it has.
  int64_t max_models = 1024;
  int64_t max_datasets = 256;
  int64_t max_clients = 10'000;                   // Clients (per model) that make numbered calls.
  int64_t max_silent_clients = 1'000'000;         // Those that have not called for long: 16 bytes each.
  int64_t max_answer_bytes = int64_t{256} << 20;  // For all answers kept for repetitions of numbered calls.
  int64_t answer_lease_seconds = 600;             // Such an answer is kept for so long.
  int64_t max_store_bytes = 0;                    // For all checkpoints. 0: the disk's but for a reserve.
  int64_t max_checkpoints = 10'000;
  int64_t max_uploads = 10'000;                   // Uploads of parameters, not yet applied.
  int64_t upload_lease_seconds = 600;             // An upload that is silent for so long is forgotten.
  int64_t max_sessions = 256;
  int64_t max_session_queue_bytes = int64_t{64} << 20;  // For the waiting commands and replies of one session.
  int64_t max_session_bytes = int64_t{8} << 30;   // For the tensors of one session on one device.
  int64_t max_session_arrays = 1'000'000;         // For one session; as many calls, and as many graphs.
  int64_t session_lease_seconds = 60;             // A session whose client is silent for so long ends.
  int64_t session_grace_seconds = 24 * 3600;      // One that has saved or opened something ends after so long.
  int64_t max_saved_sessions = 1024;
  int64_t max_named_session_bytes = 0;            // For such sessions while their clients are away, on each device, and
                                                  // for saves without a store. 0: a quarter of the memory.
  int64_t max_served_versions = 256;              // Published versions of models.
  int64_t stream_idle_seconds = 3600;             // A stream of inferences without a request for so long ends. 0: never.
  int64_t callback_seconds = 300;                 // A client that computes an operator has so long for each call.
  int64_t max_callbacks = 65'536;                 // Calls that one such client has not answered.

  // A named session is kept for so long while its client is away.
  int64_t GraceSeconds() const { return std::max(session_lease_seconds, session_grace_seconds); }

  // The largest chunk of an upload or a download.
  int64_t max_chunk_bytes() const { return std::min(int64_t{4} << 20, max_message_bytes / 2); }
};

struct LimitFlag {
  const char* name;  // Without the dashes.
  int64_t Limits::*limit;
  int64_t least;
  int64_t most;
};

// A row for each field of Limits.
absl::Span<const LimitFlag> LimitFlags();

// INVALID_ARGUMENT names a flag whose value is out of its row's range.
absl::Status CheckLimits(const Limits& limits);

}  // namespace gluond::server

#endif  // SERVER_START_LIMITS_H_
