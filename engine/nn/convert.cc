#include "engine/nn/convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/core/status_macros.h"

namespace gluond {
namespace {

// Calls f(T{}) with the C++ type of `type`.
template <class F>
void WithType(DType type, F f) {
  switch (type) {
    case DType::kFloat32: return f(float{});
    case DType::kFloat64: return f(double{});
    case DType::kFloat16: return f(Half{});
    case DType::kBfloat16: return f(BFloat16{});
    case DType::kUint8: return f(uint8_t{});
    case DType::kInt8: return f(int8_t{});
    case DType::kInt32: return f(int32_t{});
    case DType::kInt64: return f(int64_t{});
    case DType::kBool: return f(bool{});
    case DType::kUnknown: return;
  }
}

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class T, class Wide>
T Narrow(Wide v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != 0;
  } else if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(v));
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<Wide>) {
    // The largest int64 is no double: the next double above it stands for it.
    if (std::isnan(v)) return 0;
    if (v <= static_cast<Wide>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (v >= static_cast<Wide>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(v);
  } else if constexpr (std::is_integral_v<T>) {
    if (v < static_cast<Wide>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (v > static_cast<Wide>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(v);
  } else {
    return static_cast<T>(v);
  }
}

template <class Wide, class From, class To>
void Convert(const From* from, To* to, int64_t n, Wide scale, Wide shift) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, bool>) {
      // A byte from a client may hold more than 0 and 1, which no bool may.
      to[i] = Narrow<To>(scale * static_cast<Wide>(reinterpret_cast<const uint8_t*>(from)[i] != 0) + shift);
    } else if constexpr (kIsHalf<From>) {
      to[i] = Narrow<To>(scale * static_cast<Wide>(static_cast<float>(from[i])) + shift);
    } else {
      to[i] = Narrow<To>(scale * static_cast<Wide>(from[i]) + shift);
    }
  }
}

}  // namespace

void ConvertValues(const void* from, DType from_type, void* to, DType to_type, int64_t n, double scale, double shift) {
  const bool plain = scale == 1 && shift == 0;
  if (from_type == to_type && plain && from_type != DType::kBool) {
    if (n > 0) std::memcpy(to, from, static_cast<size_t>(n * SizeOf(to_type)));
    return;
  }
  WithType(from_type, [&](auto f) {
    WithType(to_type, [&](auto t) {
      using From = decltype(f);
      using To = decltype(t);
      const From* const source = static_cast<const From*>(from);
      To* const target = static_cast<To*>(to);
      if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        if (plain) return Convert<int64_t>(source, target, n, 1, 0);  // A double would round large int64.
      }
      if constexpr (sizeof(From) == 1 && std::is_same_v<To, float>) {
        return Convert<float>(source, target, n, static_cast<float>(scale), static_cast<float>(shift));
      } else {
        return Convert<double>(source, target, n, scale, shift);
      }
    });
  });
}

absl::Status CopyFromHost(Lane& lane, const Tensor& from, const Tensor& to) {
  return lane.driver().CopyFromHost(to.data(), from.data(), to.bytes(), lane.stream());
}

absl::Status CopyToHost(Lane& lane, const Tensor& from, const Tensor& to) {
  return lane.driver().CopyToHost(to.data(), from.data(), to.bytes(), lane.stream());
}

absl::StatusOr<Tensor> ToDevice(Lane& lane, const Tensor& value, DType dtype, Allocator& device, Allocator& host) {
  Tensor converted = value;
  if (value.dtype() != dtype) {
    ASSIGN_OR_RETURN(converted, Tensor::Empty(host, value.shape(), dtype));
    ConvertValues(value.data(), value.dtype(), converted.data(), dtype, value.Size());
  }
  if (lane.device().type == DeviceType::kCpu) return converted;
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(device, value.shape(), dtype));
  RETURN_IF_ERROR(CopyFromHost(lane, converted, copy));
  return copy;
}

absl::StatusOr<Tensor> HostCopy(Lane& lane, const Tensor& value, Allocator& host) {
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(host, value.shape(), value.dtype()));
  RETURN_IF_ERROR(CopyToHost(lane, value, copy));
  return copy;
}

}  // namespace gluond
