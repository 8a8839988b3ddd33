#include "engine/core/convert.h"

#include <cstring>

namespace gluond {
namespace {

// The byte that a bool lies in.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <class To, class From>
void ConvertEach(const Stored<From>* from, To* to, int64_t n, double scale, double shift) {
  const auto value = [from](int64_t i) {
    if constexpr (std::is_same_v<From, bool>)
      return from[i] != 0;
    else
      return from[i];
  };
  using Wide = std::conditional_t<sizeof(From) == 1 && std::is_same_v<To, float>, float, double>;
  if (scale == 1 && shift == 0) {
    for (int64_t i = 0; i < n; ++i) to[i] = Convert<To>(value(i));
  } else {
    const Wide a = static_cast<Wide>(scale), b = static_cast<Wide>(shift);
    for (int64_t i = 0; i < n; ++i) to[i] = Convert<To>(a * Convert<Wide>(value(i)) + b);
  }
}

}  // namespace

void ConvertValues(const void* from, DType from_type, void* to, DType to_type, int64_t n, double scale, double shift) {
  if (from_type == to_type && scale == 1 && shift == 0 && from_type != DType::kBool) {
    if (n > 0) std::memcpy(to, from, static_cast<size_t>(n * SizeOf(to_type)));
    return;
  }
  DispatchType(from_type, [&](auto f) {
    DispatchType(to_type, [&](auto t) {
      using From = decltype(f);
      using To = decltype(t);
      ConvertEach<To, From>(static_cast<const Stored<From>*>(from), static_cast<To*>(to), n, scale, shift);
    });
  });
}

}  // namespace gluond
