#include "server/start/limits.h"

#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
constexpr int64_t kCentury = int64_t{100} * 365 * 24 * 3600;  // Clocks count nanoseconds in 63 bits.

constexpr LimitFlag kFlags[] = {
    {"max_memory_bytes", &Limits::max_memory_bytes, 0, kAny},
    {"max_message_bytes", &Limits::max_message_bytes, 1, kLargestMessage},
    {"max_connections", &Limits::max_connections, 1, kAny},
    {"max_requests", &Limits::max_requests, 1, kAny},
    {"max_request_bytes", &Limits::max_request_bytes, 1, kAny},
    {"max_graph_nodes", &Limits::max_graph_nodes, 1, kAny},
    {"max_model_bytes", &Limits::max_model_bytes, 1, kAny},
    {"max_tensor_bytes", &Limits::max_tensor_bytes, 1, kAny},
    {"max_models", &Limits::max_models, 1, kAny},
    {"max_datasets", &Limits::max_datasets, 1, kAny},
    {"max_clients", &Limits::max_clients, 1, kAny},
    {"max_silent_clients", &Limits::max_silent_clients, 1, kAny},
    {"max_answer_bytes", &Limits::max_answer_bytes, 1, kAny},
    {"answer_lease_seconds", &Limits::answer_lease_seconds, 1, kCentury},
    {"max_store_bytes", &Limits::max_store_bytes, 0, kAny},
    {"max_checkpoints", &Limits::max_checkpoints, 1, kAny},
    {"max_uploads", &Limits::max_uploads, 1, kAny},
    {"upload_lease_seconds", &Limits::upload_lease_seconds, 1, kCentury},
    {"max_sessions", &Limits::max_sessions, 1, kAny},
    {"max_session_queue_bytes", &Limits::max_session_queue_bytes, 1, kAny},
    {"max_session_bytes", &Limits::max_session_bytes, 1, kAny},
    {"max_session_arrays", &Limits::max_session_arrays, 1, kAny},
    {"session_lease_seconds", &Limits::session_lease_seconds, 1, kCentury},
    {"session_grace_seconds", &Limits::session_grace_seconds, 1, kCentury},
    {"max_saved_sessions", &Limits::max_saved_sessions, 1, kAny},
    {"max_named_session_bytes", &Limits::max_named_session_bytes, 0, kAny},
    {"max_served_versions", &Limits::max_served_versions, 1, kAny},
    {"stream_idle_seconds", &Limits::stream_idle_seconds, 0, kCentury},
    {"callback_seconds", &Limits::callback_seconds, 1, kCentury},
    {"max_callbacks", &Limits::max_callbacks, 1, kAny},
};
static_assert(sizeof(Limits) == sizeof(int64_t) * std::size(kFlags), "a field of Limits has no row");

}  // namespace

absl::Span<const LimitFlag> LimitFlags() { return kFlags; }

absl::Status CheckLimits(const Limits& limits) {
  for (const LimitFlag& flag : kFlags) {
    const int64_t limit = limits.*flag.limit;
    if (limit >= flag.least && limit <= flag.most) continue;
    const std::string range = flag.most == kAny ? absl::StrCat(flag.least, " or more") : absl::StrCat(flag.least, " to ", flag.most);
    return absl::InvalidArgumentError(absl::StrCat("--", flag.name, " is ", limit, "; want ", range));
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
