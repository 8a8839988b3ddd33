// Half and BFloat16: the two 16-bit floating-point storage types. Arithmetic is done in float; these types
// only convert, rounding to nearest even, with the same bits on every device.

#ifndef ENGINE_CORE_HALF_H_
#define ENGINE_CORE_HALF_H_

#include <cstdint>
#include <cstring>

#include "engine/core/host_device.h"

namespace gluond {

template <class To, class From>
HOST_DEVICE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// IEEE 754 binary16.
struct Half {
  uint16_t bits;

  Half() = default;
  HOST_DEVICE explicit Half(float f) : bits(FromFloat(f)) {}
  HOST_DEVICE explicit operator float() const { return ToFloat(bits); }

  HOST_DEVICE static uint16_t FromFloat(float f) {
    const uint32_t x = BitCast<uint32_t>(f);
    const uint32_t sign = (x >> 16) & 0x8000u;
    const uint32_t magnitude = x & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) return sign | (magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u);
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and more round to infinity.
    if (magnitude < 0x38800000u) {                        // Below 2^-14: a multiple of 2^-24.
      // Adding 0.5 aligns the unit in the last place of the sum with 2^-24 and rounds in hardware.
      const float aligned = BitCast<float>(magnitude) + 0.5f;
      return sign | (BitCast<uint32_t>(aligned) - 0x3f000000u);
    }
    const uint32_t odd = (magnitude >> 13) & 1u;
    return sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
  }
  HOST_DEVICE static float ToFloat(uint16_t h) {
    const uint32_t sign = (h & 0x8000u) << 16;
    const uint32_t rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return BitCast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
    if (rest >= 0x0400u) return BitCast<float>(sign | ((rest << 13) + 0x38000000u));
    const float subnormal = static_cast<float>(rest) * 5.9604644775390625e-8f;  // 2^-24
    return sign ? -subnormal : subnormal;
  }
};

// The upper half of a binary32.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  HOST_DEVICE explicit BFloat16(float f) : bits(FromFloat(f)) {}
  HOST_DEVICE explicit operator float() const { return BitCast<float>(static_cast<uint32_t>(bits) << 16); }

  HOST_DEVICE static uint16_t FromFloat(float f) {
    const uint32_t x = BitCast<uint32_t>(f);
    if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x40u);
    return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
};

}  // namespace gluond

#endif  // ENGINE_CORE_HALF_H_
