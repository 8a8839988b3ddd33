// CRC-32C (Castagnoli), the checksum of everything that travels in pieces. Runs at memory speed with SSE 4.2.

#ifndef SERVER_CRC32C_H_
#define SERVER_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gluond::server {

// The checksum of `bytes`, or of a longer text that ends with them when `crc` is that of what stands before.
// Crc32c("123456789") is 0xe3069283.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

}  // namespace gluond::server

#endif  // SERVER_CRC32C_H_
