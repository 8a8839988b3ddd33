#include "engine/store/crc32c.h"

#include <array>
#include <cstring>

namespace gluond {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    table[b] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

// The functions of this file leave out the inversions before and after, except Crc32c.
uint32_t Portable(const char* p, size_t n, uint32_t crc) {
  for (; n > 0; --n, ++p) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(*p)) & 255];
  return crc;
}

#ifdef __x86_64__
// The instruction takes three cycles, but one can begin in each cycle: three stretches of this many bytes run side by
// side.
constexpr size_t kStretch = 2048;

// Tables from a checksum to that of the same bytes followed by kStretch zeros: linear in the bits, so one per byte.
using Shifts = std::array<std::array<uint32_t, 256>, 4>;

constexpr Shifts MakeShifts() {
  Shifts shifts = {};
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = 1u << bit;
    for (size_t i = 0; i < kStretch; ++i) crc = crc >> 8 ^ kTable[crc & 255];
    for (size_t b = 0; b < 256; ++b) shifts[bit / 8][b] ^= b >> bit % 8 & 1 ? crc : 0;
  }
  return shifts;
}

constexpr Shifts kShifts = MakeShifts();

uint32_t Shift(uint32_t crc) {
  return kShifts[0][crc & 255] ^ kShifts[1][crc >> 8 & 255] ^ kShifts[2][crc >> 16 & 255] ^ kShifts[3][crc >> 24];
}

uint64_t Word(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t Sse42(const char* p, size_t n, uint32_t crc) {
  uint64_t a = crc;
  for (; n >= 3 * kStretch; p += 3 * kStretch, n -= 3 * kStretch) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kStretch; i += 8) {
      a = __builtin_ia32_crc32di(a, Word(p + i));
      b = __builtin_ia32_crc32di(b, Word(p + kStretch + i));
      c = __builtin_ia32_crc32di(c, Word(p + 2 * kStretch + i));
    }
    a = Shift(Shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ c;
  }
  for (; n >= 8; p += 8, n -= 8) a = __builtin_ia32_crc32di(a, Word(p));
  return Portable(p, n, static_cast<uint32_t>(a));
}
#endif

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
#ifdef __x86_64__
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  if (has_sse42) return ~Sse42(bytes.data(), bytes.size(), ~crc);
#endif
  return ~Portable(bytes.data(), bytes.size(), ~crc);
}

}  // namespace gluond
