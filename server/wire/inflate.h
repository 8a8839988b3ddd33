// Inflate undoes the compression of a gRPC message. gRPC 1.51 itself would inflate a message to any size before anybody
// could refuse it, so it is told to leave messages as they came.
//
// Needless with a release of gRPC that bounds what a message inflates to (grpc/grpc, pull request 43034 of 2026).
//
//   ASSIGN_OR_RETURN(const Slices message, Inflate(received, Encoding::kGzip, most_bytes, too_large, charge));

#ifndef SERVER_WIRE_INFLATE_H_
#define SERVER_WIRE_INFLATE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// The compression of a received message, by the call's `grpc-encoding` and the message's own flag.
enum class Encoding { kNone, kDeflate, kGzip };

// A byte of a compressed message becomes so many at most: what the format can say with it.
inline constexpr int64_t kMostInflation = 1032;

// Asked for each piece of the message before it is allocated. An error is the result of Inflate.
using ChargeInflated = std::function<absl::Status(int64_t bytes)>;

// The message, in pieces, of at most `most_bytes`; kNone gives `slices` back. `too_large`: the error of one that has more,
// of which no more than that is ever made. INVALID_ARGUMENT: `slices` are cut off, damaged, or go on behind their end.
absl::StatusOr<Slices> Inflate(const Slices& slices, Encoding encoding, int64_t most_bytes, const absl::Status& too_large,
                               const ChargeInflated& charge);

}  // namespace gluond::server

#endif  // SERVER_WIRE_INFLATE_H_
