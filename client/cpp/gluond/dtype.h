// DType: the type of a tensor's elements, with MXNet's numbers, which the wire has as well.
//
//   static_assert(DTypeOf<float>() == DType::kFloat32);
//   Float16 half(0.1f);  // The nearest of the type's values; float(half) is exact.

#ifndef GLUOND_DTYPE_H_
#define GLUOND_DTYPE_H_

#include <cstdint>
#include <ostream>

#include "gluond/export.h"

namespace gluond::client {

enum class DType : int {
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kUint8 = 3,
  kInt32 = 4,
  kInt8 = 5,
  kInt64 = 6,
  kBool = 7,
  kBfloat16 = 12,
};

// Bytes of one element; 0 for a dtype that does not exist.
GLUOND_EXPORT int64_t ElementSize(DType dtype);

// "FLOAT32", as the wire and the server's errors name it; "?" for a dtype that does not exist.
GLUOND_EXPORT const char* ToString(DType dtype);

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << ToString(dtype); }

// IEEE 754's half precision. A float becomes the nearest value, of two equally near ones the even one.
class GLUOND_EXPORT Float16 {
 public:
  Float16() = default;
  explicit Float16(float value);
  static Float16 FromBits(uint16_t bits);

  explicit operator float() const;
  uint16_t bits() const { return bits_; }

 private:
  uint16_t bits_ = 0;
};

// The upper half of a float. A float becomes the nearest value, of two equally near ones the even one.
class GLUOND_EXPORT Bfloat16 {
 public:
  Bfloat16() = default;
  explicit Bfloat16(float value);
  static Bfloat16 FromBits(uint16_t bits);

  explicit operator float() const;
  uint16_t bits() const { return bits_; }

 private:
  uint16_t bits_ = 0;
};

inline bool operator==(Float16 a, Float16 b) { return float(a) == float(b); }
inline bool operator!=(Float16 a, Float16 b) { return !(a == b); }
inline bool operator==(Bfloat16 a, Bfloat16 b) { return float(a) == float(b); }
inline bool operator!=(Bfloat16 a, Bfloat16 b) { return !(a == b); }

// The DType of a C++ type. Other types have none.
template <class T>
constexpr DType DTypeOf() = delete;
template <>
constexpr DType DTypeOf<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType DTypeOf<Float16>() {
  return DType::kFloat16;
}
template <>
constexpr DType DTypeOf<Bfloat16>() {
  return DType::kBfloat16;
}
template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kUint8;
}
template <>
constexpr DType DTypeOf<int8_t>() {
  return DType::kInt8;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType DTypeOf<bool>() {
  return DType::kBool;
}

}  // namespace gluond::client

#endif  // GLUOND_DTYPE_H_
