// Convolution of tensors on a CPU, by conv.h's. The types of 16 bits are computed in float.

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
absl::Status VolumeForward<cpu>(const OpContext& ctx, const ConvSize& s, const TBlob& x, const TBlob& w, const TBlob* bias,
                                const Target& y) {
  if (y.req == kNullOp) return absl::OkStatus();
  return DispatchReal(x.dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    ASSIGN_OR_RETURN(const C* images, (As<cpu, C>(ctx, x)));
    ASSIGN_OR_RETURN(const C* filters, (As<cpu, C>(ctx, w)));
    const C* biases = nullptr;
    if (bias != nullptr) {
      ASSIGN_OR_RETURN(biases, (As<cpu, C>(ctx, *bias)));
    }
    Stage<cpu, C> out;
    RETURN_IF_ERROR(out.Begin(ctx, y, false));
    RETURN_IF_ERROR(ConvForward(ctx, s, images, filters, biases, out.req == kAddTo, out.data));
    return out.Finish(ctx);
  });
}

template <>
absl::Status VolumeBackward<cpu>(const OpContext& ctx, const ConvSize& s, const TBlob& dy, const TBlob& x, const TBlob& w,
                                 const Target& dx, const Target& dw, const Target& dbias) {
  return DispatchReal(dy.dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    ASSIGN_OR_RETURN(const C* gradients, (As<cpu, C>(ctx, dy)));
    ASSIGN_OR_RETURN(const C* images, (As<cpu, C>(ctx, x)));
    ASSIGN_OR_RETURN(const C* filters, (As<cpu, C>(ctx, w)));
    const Target targets[] = {dx, dw, dbias};
    Stage<cpu, C> stages[3];
    ConvOut outs[3];
    for (int i = 0; i < 3; ++i) {
      RETURN_IF_ERROR(stages[i].Begin(ctx, targets[i], false));
      outs[i] = {stages[i].data, stages[i].req};
    }
    RETURN_IF_ERROR(ConvBackward(ctx, s, gradients, images, filters, outs[0], outs[1], outs[2]));
    for (const Stage<cpu, C>& stage : stages) RETURN_IF_ERROR(stage.Finish(ctx));
    return absl::OkStatus();
  });
}

}  // namespace gluond::ops
