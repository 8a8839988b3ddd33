#include "server/rpc/inflate_in_turn.h"

#include "engine/core/error_info.h"
#include "engine/runtime/fair_semaphore.h"
#include "server/rpc/dispatch.h"

namespace gluond::server {

absl::StatusOr<Slices> InflateInTurn(const Slices& slices, Encoding encoding, int64_t most_bytes, const ChargeInflated& charge) {
  const auto bytes = static_cast<int64_t>(Bytes(slices).size());
  const absl::Status too_large =
      OverLimit("--max_message_bytes", "the ", bytes, " bytes of the compressed message hold more than the ", most_bytes,
                " of --max_message_bytes; send less at once, or upload in chunks");
  absl::StatusOr<Slices> inflated = absl::InternalError("nobody has inflated the message");
  const auto inflate = [&] { inflated = Inflate(slices, encoding, most_bytes, too_large, charge); };
  // A short one may be on gRPC's thread, which does not wait.
  Dispatch::OfMessage(bytes * kMostInflation) == Weight::kLight ? inflate() : FairSemaphore::OfLongWork().Do(inflate);
  return inflated;
}

}  // namespace gluond::server
