#include "server/rpc/unsent.h"

#include <algorithm>

#include "server/rpc/stream.h"

namespace gluond::server {
namespace {

// A client has so long for any reply, and so much more for a large one.
constexpr std::chrono::seconds kPatience{30};
constexpr int64_t kSlowestBytesPerSecond = 256 << 10;

}  // namespace

Unsent::Clock::duration Unsent::TimeFor(int64_t bytes) { return kPatience + std::chrono::seconds(bytes / kSlowestBytesPerSecond); }

Unsent::Place Unsent::Add(Stream* stream, Clock::time_point deadline) {
  MutexLock lock(mu_);
  return replies_.insert(replies_.end(), {stream, deadline, false});
}

void Unsent::Remove(Place place) {
  MutexLock lock(mu_);
  replies_.erase(place);
}

void Unsent::Sweep(Clock::time_point now) {
  MutexLock lock(mu_);
  while (true) {
    const auto late = std::find_if(replies_.begin(), replies_.end(),
                                   [now](const Reply& reply) { return !reply.cancelled && now >= reply.deadline; });
    if (late == replies_.end()) return;
    late->cancelled = true;
    late->stream->Cancel();
  }
}

}  // namespace gluond::server
