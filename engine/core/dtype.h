// DType names the type of a tensor's elements. The numbers are MXNet's type flags, so that its files and
// attribute strings keep their meaning.

#ifndef ENGINE_CORE_DTYPE_H_
#define ENGINE_CORE_DTYPE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/half.h"

namespace gluond {

enum class DType : int8_t {
  kUnknown = -1,
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

using TypeVector = std::vector<DType>;

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16, DType::kUint8,
                                       DType::kInt8,    DType::kInt32,   DType::kInt64,   DType::kBool};

// Bytes of one element; 0 for kUnknown.
constexpr int64_t SizeOf(DType type) {
  switch (type) {
    case DType::kFloat64:
    case DType::kInt64: return 8;
    case DType::kFloat32:
    case DType::kInt32: return 4;
    case DType::kFloat16:
    case DType::kBfloat16: return 2;
    case DType::kUint8:
    case DType::kInt8:
    case DType::kBool: return 1;
    case DType::kUnknown: return 0;
  }
  return 0;
}

constexpr bool IsFloating(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat64 || type == DType::kFloat16 || type == DType::kBfloat16;
}

// "float32", ...; "unknown".
absl::string_view Name(DType type);
// Accepts the names, and MXNet's type flags as decimal numbers. INVALID_ARGUMENT lists the names.
absl::StatusOr<DType> ParseDType(absl::string_view text);

inline std::ostream& operator<<(std::ostream& os, DType type) { return os << std::string(Name(type)); }

// Merges a known `from` into `to`. False: they differ.
inline bool TypeAssign(DType* to, DType from) {
  if (from == DType::kUnknown) return true;
  if (*to == DType::kUnknown) *to = from;
  return *to == from;
}

// DTypeOf<float> is DType::kFloat32, and so on.
template <class T>
inline constexpr DType DTypeOf = DType::kUnknown;
template <>
inline constexpr DType DTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType DTypeOf<double> = DType::kFloat64;
template <>
inline constexpr DType DTypeOf<Half> = DType::kFloat16;
template <>
inline constexpr DType DTypeOf<BFloat16> = DType::kBfloat16;
template <>
inline constexpr DType DTypeOf<uint8_t> = DType::kUint8;
template <>
inline constexpr DType DTypeOf<int8_t> = DType::kInt8;
template <>
inline constexpr DType DTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType DTypeOf<int64_t> = DType::kInt64;
template <>
inline constexpr DType DTypeOf<bool> = DType::kBool;

}  // namespace gluond

#endif  // ENGINE_CORE_DTYPE_H_
