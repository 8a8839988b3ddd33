// Convolution of tensors on a CPU: by conv.h's.

#include "ops/kernel/conv_volume.h"

#include <algorithm>

#include "ops/kernel/row_geometry.h"

namespace gluond::ops {

template <>
absl::Status AddToChannels<cpu>(const OpContext& ctx, const TBlob& bias, const TBlob& y) {
  const RowGeometry shape = RowsOf(y.shape, 1);
  return DispatchReal(y.dtype, [&](auto c) {
    using C = decltype(c);
    const In<C> from(bias);
    Parallel(ctx, shape.outer * shape.n, 1 + kGrain / shape.inner, [&](int64_t begin, int64_t end) {
      C tile[kTile];
      for (int64_t plane = begin; plane < end; ++plane) {
        std::fill_n(tile, std::min(kTile, shape.inner), from[plane % shape.n]);
        for (int64_t i = 0; i < shape.inner; i += kTile) {
          StoreTile(y, kAddTo, plane * shape.inner + i, std::min(kTile, shape.inner - i), tile);
        }
      }
    });
    return absl::OkStatus();
  });
}

template <>
absl::Status VolumeForward<cpu>(const OpContext& ctx, const ConvSize& s, const TBlob& x, const TBlob& w,
                                const TBlob* bias, const Target& y) {
  return ConvForward(ctx, x.dtype, s, x.data, w.data, bias == nullptr ? nullptr : bias->data, y.req, y.blob.data);
}

template <>
absl::Status VolumeBackward<cpu>(const OpContext& ctx, const ConvSize& s, const TBlob& dy, const TBlob& x,
                                 const TBlob& w, const Target& dx, const Target& dw, const Target& dbias) {
  return ConvBackward(ctx, dy.dtype, s, dy.data, x.data, w.data, {dx.blob.data, dx.req}, {dw.blob.data, dw.req},
                      {dbias.blob.data, dbias.req});
}

}  // namespace gluond::ops
