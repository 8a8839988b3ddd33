// Limits: the most that the server accepts. One table has each limit's name, default, range and help: it makes the field of
// Limits, the flag of the same name (main.cc), what --check looks at and GetServerInfo tells. Every error that a limit causes
// names the flag.
//
//   for (const LimitFlag& each : LimitFlags()) limits.*each.limit = ... the flag each.name ...;
//   RETURN_IF_ERROR(CheckLimits(limits));

#ifndef SERVER_START_LIMITS_H_
#define SERVER_START_LIMITS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gluond::server {

// The longest message that gRPC and Protocol Buffers carry for sure.
constexpr int64_t kLargestMessage = int64_t{1} << 30;

// The greatest limits: any number, and any time that a clock can count, which has nanoseconds in 63 bits.
constexpr int64_t kAnyLimit = std::numeric_limits<int64_t>::max();
constexpr int64_t kCentury = int64_t{100} * 365 * 24 * 3600;

// X(name, default, least, most, help): what the limit is for and which values it may have.
#define GLUOND_LIMITS(X)                                                                                                          \
  X(max_memory_bytes, 0, 0, kAnyLimit,                                                                                            \
    "Most memory of the process: tensors, requests, replies, queues. 0: three quarters of what the machine, or the control "      \
    "group, has.")                                                                                                                \
  X(max_message_bytes, int64_t{64} << 20, 1, kLargestMessage, "Largest request or reply, at most 1 GiB.")                         \
  X(max_connections, 1024, 1, kAnyLimit, "Most connections. Those of one address: half of them.")                                 \
  X(max_requests, 1024, 1, kAnyLimit, "Most requests at work or waiting.")                                                        \
  X(max_request_bytes, int64_t{1} << 30, 1, kAnyLimit, "Most bytes of all requests at work or waiting.")                          \
  X(max_graph_nodes, 200'000, 1, kAnyLimit, "Most nodes of one expanded graph.")                                                  \
  X(max_model_bytes, int64_t{8} << 30, 1, kAnyLimit, "Most bytes of tensors held for one model.")                                 \
  X(max_tensor_bytes, int64_t{1} << 40, 1, kAnyLimit, "Most bytes of tensors held in all on one device; never more than it has.") \
  X(max_models, 1024, 1, kAnyLimit, "Most models.")                                                                               \
  X(max_datasets, 256, 1, kAnyLimit, "Most datasets.")                                                                            \
  X(max_clients, 10'000, 1, kAnyLimit,                                                                                            \
    "Most clients (per model) that make numbered calls. One that is silent for ten minutes, or makes room, counts no more.")      \
  X(max_silent_clients, 1'000'000, 1, kAnyLimit,                                                                                  \
    "Most silent clients (per model) whose last sequence numbers are remembered, 16 bytes each. Beyond them new clients are "     \
    "refused, so that no call is applied twice. One identity has at most as many as are left for all others.")                    \
  X(max_answer_bytes, int64_t{256} << 20, 1, kAnyLimit,                                                                           \
    "Most bytes of all answers kept for calls that are sent again; the oldest go first.")                                         \
  X(answer_lease_seconds, 600, 1, kCentury, "Such an answer is kept for so long.")                                                \
  X(max_store_bytes, 0, 0, kAnyLimit,                                                                                             \
    "Most bytes of all checkpoints and datasets in --store_dir. 0: all that the disk has. The smaller of 1 GiB and a twentieth "  \
    "of the disk stays free in any case.")                                                                                        \
  X(max_checkpoints, 10'000, 1, kAnyLimit, "Most checkpoints in --store_dir.")                                                    \
  X(max_uploads, 10'000, 1, kAnyLimit, "Most parameters that are being uploaded.")                                                \
  X(upload_lease_seconds, 600, 1, kCentury,                                                                                       \
    "A silent upload is forgotten after so long, and so is the copy that a silent download has.")                                 \
  X(max_sessions, 256, 1, kAnyLimit, "Most sessions.")                                                                            \
  X(max_session_queue_bytes, int64_t{64} << 20, 1, kAnyLimit,                                                                     \
    "Most bytes of commands and replies that wait in one session; as much again of replies that may be sent anew.")               \
  X(max_session_bytes, int64_t{8} << 30, 1, kAnyLimit, "Most bytes of tensors held for one session on one device.")               \
  X(max_session_arrays, 1'000'000, 1, kAnyLimit, "Most arrays of one session, most prepared calls, and most graphs.")             \
  X(session_lease_seconds, 60, 1, kCentury, "A silent session ends after so long.")                                               \
  X(session_grace_seconds, 24 * 3600, 1, kCentury,                                                                                \
    "A silent session that has saved its arrays, or opened saved ones, ends after so long.")                                      \
  X(max_saved_sessions, 1024, 1, kAnyLimit, "Most names under which sessions have saved arrays.")                                 \
  X(max_named_session_bytes, 0, 0, kAnyLimit,                                                                                     \
    "Most bytes of tensors, on each device, of sessions that have saved or opened something and whose clients are silent for "    \
    "longer than the lease: the longest silent end first. Without --store_dir also: most bytes of all that sessions have saved. " \
    "0: a quarter of the memory.")                                                                                                \
  X(max_served_versions, 256, 1, kAnyLimit, "Most published versions of models.")                                                 \
  X(stream_idle_seconds, 3600, 0, kCentury, "A stream of inferences without a request for so long ends. 0: never.")               \
  X(callback_seconds, 300, 1, kCentury, "A client that computes an operator has so long for each call.")                          \
  X(max_callbacks, 65'536, 1, kAnyLimit, "Most calls that one such client has not answered.")

struct Limits {
#define GLUOND_LIMIT(name, value, least, most, help) int64_t name = value;
  GLUOND_LIMITS(GLUOND_LIMIT)
#undef GLUOND_LIMIT

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

// INVALID_ARGUMENT names what is less than `least` or more than `most`, as "--max_models".
absl::Status CheckInRange(absl::string_view name, int64_t value, int64_t least, int64_t most = kAnyLimit);
// The same of each limit and its row's range.
absl::Status CheckLimits(const Limits& limits);

}  // namespace gluond::server

#endif  // SERVER_START_LIMITS_H_
