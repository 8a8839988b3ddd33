// Convert: between element types, defined for every value; and typed access to elements whose type is known only
// when the program runs.

#ifndef ENGINE_CORE_CONVERT_H_
#define ENGINE_CORE_CONVERT_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/core/dtype.h"
#include "engine/core/half.h"
#include "engine/core/host_device.h"

namespace gluond {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Floating point to integer truncates; a value that does not fit becomes the nearest integer that does, and NaN 0.
// Integer to smaller integer wraps. A number becomes true unless it is 0.
template <class To, class From>
HOST_DEVICE To Convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (kIsHalf<From>) {
    return Convert<To>(static_cast<float>(v));
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr To kMin = std::numeric_limits<To>::min(), kMax = std::numeric_limits<To>::max();
    constexpr From kAbove = static_cast<From>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
    if (v != v) return 0;
    if (v <= static_cast<From>(kMin)) return kMin;
    return v >= kAbove ? kMax : static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

// The type in which elements of type T are added up.
template <class T>
using Acc = std::conditional_t<kIsHalf<T> || std::is_same_v<T, float>, float,
                               std::conditional_t<std::is_same_v<T, double>, double, int64_t>>;

// Calls fn(T{}) with the C++ type of `dtype`.
template <class Fn>
auto DispatchType(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kFloat64: return fn(double{});
    case DType::kFloat16: return fn(Half{});
    case DType::kBfloat16: return fn(BFloat16{});
    case DType::kUint8: return fn(uint8_t{});
    case DType::kInt8: return fn(int8_t{});
    case DType::kInt32: return fn(int32_t{});
    case DType::kInt64: return fn(int64_t{});
    case DType::kBool: return fn(bool{});
    default: return fn(float{});
  }
}

// Calls fn(C{}) with the type that elements of `dtype` are computed in: float, double or int64_t.
template <class Fn>
auto DispatchCompute(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBfloat16: return fn(float{});
    case DType::kFloat64: return fn(double{});
    default: return fn(int64_t{});
  }
}

// The same for functions of real numbers: integers compute in double.
template <class Fn>
auto DispatchReal(DType dtype, const Fn& fn) {
  if (dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBfloat16) return fn(float{});
  return fn(double{});
}

// Element i, as a C.
template <class C>
HOST_DEVICE C LoadAs(DType dtype, const void* x, int64_t i) {
  switch (dtype) {
    case DType::kFloat64: return Convert<C>(static_cast<const double*>(x)[i]);
    case DType::kFloat16: return Convert<C>(static_cast<const Half*>(x)[i]);
    case DType::kBfloat16: return Convert<C>(static_cast<const BFloat16*>(x)[i]);
    case DType::kUint8: return Convert<C>(static_cast<const uint8_t*>(x)[i]);
    case DType::kInt8: return Convert<C>(static_cast<const int8_t*>(x)[i]);
    case DType::kInt32: return Convert<C>(static_cast<const int32_t*>(x)[i]);
    case DType::kInt64: return Convert<C>(static_cast<const int64_t*>(x)[i]);
    case DType::kBool: return Convert<C>(static_cast<const uint8_t*>(x)[i] != 0);
    default: return Convert<C>(static_cast<const float*>(x)[i]);
  }
}

// a + b; integers wrap.
template <class C>
HOST_DEVICE C WrappingAdd(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

// y[i] = v, or y[i] += v.
template <class T, class C>
HOST_DEVICE void Assign(T* y, int64_t i, C v, bool add) {
  y[i] = Convert<T>(add ? WrappingAdd(Convert<C>(y[i]), v) : v);
}
template <class C>
HOST_DEVICE void StoreAs(DType dtype, void* y, int64_t i, C v, bool add) {
  switch (dtype) {
    case DType::kFloat64: return Assign(static_cast<double*>(y), i, v, add);
    case DType::kFloat16: return Assign(static_cast<Half*>(y), i, v, add);
    case DType::kBfloat16: return Assign(static_cast<BFloat16*>(y), i, v, add);
    case DType::kUint8: return Assign(static_cast<uint8_t*>(y), i, v, add);
    case DType::kInt8: return Assign(static_cast<int8_t*>(y), i, v, add);
    case DType::kInt32: return Assign(static_cast<int32_t*>(y), i, v, add);
    case DType::kInt64: return Assign(static_cast<int64_t*>(y), i, v, add);
    case DType::kBool: return Assign(static_cast<bool*>(y), i, v, add);
    default: return Assign(static_cast<float*>(y), i, v, add);
  }
}

// to[i] = scale * from[i] + shift for n values on the host. The computation is in double where there is a scale or a
// shift, and in float from bytes to float32. A bool's byte may hold more than 0 and 1: the value is "not 0".
void ConvertValues(const void* from, DType from_type, void* to, DType to_type, int64_t n, double scale = 1, double shift = 0);

}  // namespace gluond

#endif  // ENGINE_CORE_CONVERT_H_
