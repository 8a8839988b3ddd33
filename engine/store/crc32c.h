// CRC-32C (Castagnoli), as in iSCSI and ext4: the checksum of a checkpoint's files and of data that travels in pieces.

#ifndef ENGINE_STORE_CRC32C_H_
#define ENGINE_STORE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gluond {

// The checksum of bytes with the checksum `crc` followed by `bytes`. Crc32c("123456789") is 0xE3069283.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

}  // namespace gluond

#endif  // ENGINE_STORE_CRC32C_H_
