// InflateInTurn inflates a client's message on a thread that may wait.

#ifndef SERVER_RPC_INFLATE_IN_TURN_H_
#define SERVER_RPC_INFLATE_IN_TURN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/wire/inflate.h"

namespace gluond::server {

// As Inflate; a message that may become large waits for its turn among all that is slow (engine/runtime/fair_semaphore.h).
// RESOURCE_EXHAUSTED names --max_message_bytes, which `most_bytes` is.
absl::StatusOr<Slices> InflateInTurn(const Slices& slices, Encoding encoding, int64_t most_bytes, const ChargeInflated& charge);

}  // namespace gluond::server

#endif  // SERVER_RPC_INFLATE_IN_TURN_H_
