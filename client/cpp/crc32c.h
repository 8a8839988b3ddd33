// CRC-32C (Castagnoli), the checksum of chunks and columns on the wire.

#ifndef GLUOND_CLIENT_CPP_CRC32C_H_
#define GLUOND_CLIENT_CPP_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gluond::client {

// The checksum of `bytes`; or, when `crc` is the checksum of a text, that of the text and `bytes`.
// Crc32c("123456789") is 0xe3069283.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CRC32C_H_
