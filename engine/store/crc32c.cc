#include "engine/store/crc32c.h"

#include <array>
#include <cstring>

namespace gluond {
namespace {

// table[k][b]: the checksum of byte b followed by k zero bytes, so that eight bytes are taken at a time.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables = {};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    tables[0][b] = crc;
  }
  for (uint32_t b = 0; b < 256; ++b) {
    for (size_t k = 1; k < 8; ++k) tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 255];
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  crc = ~crc;
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][word >> (8 * k) & 255];
  }
  for (; n > 0; --n, ++p) crc = crc >> 8 ^ kTables[0][(crc ^ *p) & 255];
  return ~crc;
}

}  // namespace gluond
