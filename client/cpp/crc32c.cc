#include "client/cpp/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace gluond::client {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

constexpr uint32_t Portable(const char* p, size_t n, uint32_t crc) {
  for (size_t i = 0; i < n; ++i) {
    crc = kTable[(crc ^ static_cast<unsigned char>(p[i])) & 0xff] ^ (crc >> 8);
  }
  return crc;
}

static_assert(~Portable("123456789", 9, ~0u) == 0xe3069283u, "RFC 3720's check value");

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Sse42(const char* p, size_t n, uint32_t crc) {
  uint64_t wide = crc;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof(word));
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; n > 0; ++p, --n) crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(*p));
  return crc;
}
#endif

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  if (has_sse42) return ~Sse42(bytes.data(), bytes.size(), ~crc);
#endif
  return ~Portable(bytes.data(), bytes.size(), ~crc);
}

}  // namespace gluond::client
