// DTypeSwitch calls f(T()) for the C++ type T of `dtype`. Requires: dtype is known.

#ifndef SERVER_DTYPE_SWITCH_H_
#define SERVER_DTYPE_SWITCH_H_

#include "engine/core/dtype.h"

namespace gluond::server {

template <class F>
auto DTypeSwitch(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat64: return f(double());
    case DType::kFloat16: return f(Half());
    case DType::kBfloat16: return f(BFloat16());
    case DType::kUint8: return f(uint8_t());
    case DType::kInt8: return f(int8_t());
    case DType::kInt32: return f(int32_t());
    case DType::kInt64: return f(int64_t());
    case DType::kBool: return f(bool());
    case DType::kFloat32:
    case DType::kUnknown: break;
  }
  return f(float());
}

// The type that an element is computed in: its own, or float for the half types.
template <class T> struct Wide { using Type = T; };
template <> struct Wide<Half> { using Type = float; };
template <> struct Wide<BFloat16> { using Type = float; };

}  // namespace gluond::server

#endif  // SERVER_DTYPE_SWITCH_H_
