// Checks that all uploads in chunks share.

#ifndef SERVER_WIRE_CHUNK_H_
#define SERVER_WIRE_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "gluond/v1/tensor.pb.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// The longest client_id, in bytes: it is kept with a client's uploads and numbers.
inline constexpr size_t kLongestClientId = 128;

// INVALID_ARGUMENT: it is longer.
absl::Status CheckClientId(const std::string& client);

// The number of bytes at the chunk's beginning that were received before, when `received` of `total` bytes were: those
// after them are new. FAILED_PRECONDITION: the chunk begins after the received bytes. INVALID_ARGUMENT: it goes beyond
// the end. DATA_LOSS: its checksum is another one.
absl::StatusOr<size_t> CheckChunk(const v1::Chunk& chunk, const Bytes& bytes, uint64_t received, uint64_t total);

}  // namespace gluond::server

#endif  // SERVER_WIRE_CHUNK_H_
