#include "server/wire/chunk.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

absl::Status CheckClientId(const std::string& client) {
  if (client.size() <= kLongestClientId) return absl::OkStatus();
  return Invalid("client_id has ", client.size(), " bytes; want at most ", kLongestClientId);
}

absl::StatusOr<size_t> CheckChunk(const v1::Chunk& chunk, const Bytes& bytes, uint64_t received, uint64_t total) {
  const uint64_t offset = chunk.offset();
  if (offset > total || bytes.size() > total - offset) {
    return Invalid("the chunk of ", bytes.size(), " bytes at ", offset, " goes beyond the end at ", total);
  }
  if (offset > received) {
    return FailedPrecondition("the chunk begins at ", offset, ", but only ", received, " bytes were received; send from there");
  }
  if (chunk.has_crc32c() && chunk.crc32c() != bytes.Crc32c()) {
    return WithInfo(absl::DataLossError(absl::StrCat("the chunk at ", offset, " was damaged on the way: its checksum is ",
                                                     bytes.Crc32c(), ", not ", chunk.crc32c(), "; send it again")),
                    reason::kDamagedOnTheWay);
  }
  return std::min<uint64_t>(received - offset, bytes.size());
}

}  // namespace gluond::server
