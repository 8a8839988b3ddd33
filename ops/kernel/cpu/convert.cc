#include "ops/kernel/convert.h"

namespace gluond::ops {

template <class C>
void LoadTile(const TBlob& x, int64_t begin, int64_t n, C* tile) {
  DispatchType(x.dtype, [&](auto t) {
    using T = decltype(t);
    // A byte of a bool that came from outside may be anything.
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    const Stored* from = static_cast<const Stored*>(x.data) + begin;
    for (int64_t j = 0; j < n; ++j) {
      if constexpr (std::is_same_v<T, bool>) {
        tile[j] = Convert<C>(from[j] != 0);
      } else {
        tile[j] = Convert<C>(from[j]);
      }
    }
  });
}

template <class C>
void StoreTile(const TBlob& y, OpReqType req, int64_t begin, int64_t n, const C* tile) {
  DispatchType(y.dtype, [&](auto t) {
    using T = decltype(t);
    T* to = static_cast<T*>(y.data) + begin;
    if (req == kAddTo) {
      for (int64_t j = 0; j < n; ++j) to[j] = Convert<T>(WrappingAdd(Convert<C>(to[j]), tile[j]));
    } else {
      for (int64_t j = 0; j < n; ++j) to[j] = Convert<T>(tile[j]);
    }
  });
}

template void LoadTile(const TBlob&, int64_t, int64_t, float*);
template void LoadTile(const TBlob&, int64_t, int64_t, double*);
template void LoadTile(const TBlob&, int64_t, int64_t, int64_t*);
template void StoreTile(const TBlob&, OpReqType, int64_t, int64_t, const float*);
template void StoreTile(const TBlob&, OpReqType, int64_t, int64_t, const double*);
template void StoreTile(const TBlob&, OpReqType, int64_t, int64_t, const int64_t*);

}  // namespace gluond::ops
