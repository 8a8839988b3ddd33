#include "server/crc32c.h"

#include <nmmintrin.h>

#include <cstring>

namespace gluond::server {

// The server requires x86-64-v3 (cpu_check.h), which has the instruction.
__attribute__((target("sse4.2"))) uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t state = ~crc;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    state = _mm_crc32_u64(state, word);
  }
  for (; n > 0; ++p, --n) state = _mm_crc32_u8(static_cast<uint32_t>(state), static_cast<unsigned char>(*p));
  return ~static_cast<uint32_t>(state);
}

}  // namespace gluond::server
