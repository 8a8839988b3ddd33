#include "gluond/dtype.h"

#include <cmath>
#include <cstring>

namespace gluond::client {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Half precision without the compiler's type, which clang 14 has only on some processors.
uint16_t ToHalf(float value) {
  const uint32_t bits = BitsOf(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // No number.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // From 65520 on, infinity.
  if (magnitude < 0x38800000) {                       // Below 2^-14: multiples of 2^-24.
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(FloatOf(magnitude), 24)));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 0) return FloatOf(sign | BitsOf(std::ldexp(static_cast<float>(fraction), -24)));
  if (exponent == 31) return FloatOf(sign | 0x7f800000 | fraction << 13);
  return FloatOf(sign | (exponent + 112) << 23 | fraction << 13);
}

}  // namespace

int64_t ElementSize(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kBool: return 1;
    case DType::kFloat16:
    case DType::kBfloat16: return 2;
    case DType::kFloat32:
    case DType::kInt32: return 4;
    case DType::kFloat64:
    case DType::kInt64: return 8;
  }
  return 0;
}

const char* ToString(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "FLOAT32";
    case DType::kFloat64: return "FLOAT64";
    case DType::kFloat16: return "FLOAT16";
    case DType::kUint8: return "UINT8";
    case DType::kInt32: return "INT32";
    case DType::kInt8: return "INT8";
    case DType::kInt64: return "INT64";
    case DType::kBool: return "BOOL";
    case DType::kBfloat16: return "BFLOAT16";
  }
  return "?";
}

Float16::Float16(float value) : bits_(ToHalf(value)) {}

Float16 Float16::FromBits(uint16_t bits) {
  Float16 half;
  half.bits_ = bits;
  return half;
}

Float16::operator float() const { return FromHalf(bits_); }

Bfloat16::Bfloat16(float value) {
  const uint32_t bits = BitsOf(value);
  const bool is_number = (bits & 0x7fffffff) <= 0x7f800000;
  bits_ = static_cast<uint16_t>(is_number ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 0x40);
}

Bfloat16 Bfloat16::FromBits(uint16_t bits) {
  Bfloat16 half;
  half.bits_ = bits;
  return half;
}

Bfloat16::operator float() const { return FloatOf(static_cast<uint32_t>(bits_) << 16); }

}  // namespace gluond::client
