// Convolution on the CPU: by type.

#include "ops/kernel/conv.h"
#include "ops/kernel/cpu/widen.h"

namespace gluond::ops {
namespace {

// A gradient computed in float for a 16-bit output, in temporary space.
struct WideOut {
  ConvOut out;
  int64_t n;
  float* wide = nullptr;

  absl::StatusOr<ConvOut> Begin(const OpContext& ctx) {
    if (out.req == kNullOp) return ConvOut{};
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(n * sizeof(float)));
    wide = static_cast<float*>(space);
    return ConvOut{wide, kWriteTo};
  }
  void End(const OpContext& ctx, DType dtype) { Narrow(ctx, dtype, wide, out.req, out.data, n); }
};

}  // namespace

absl::Status ConvForward(const OpContext& ctx, DType dtype, const ConvSize& size, const void* x, const void* w,
                         const void* bias, OpReqType req, void* y) {
  if (req == kNullOp) return absl::OkStatus();
  const bool add = req == kAddTo;
  if (dtype == DType::kFloat32) {
    return ConvForwardFloat(ctx, size, static_cast<const float*>(x), static_cast<const float*>(w),
                            static_cast<const float*>(bias), add, static_cast<float*>(y));
  }
  if (dtype == DType::kFloat64) {
    return ConvForwardDouble(ctx, size, static_cast<const double*>(x), static_cast<const double*>(w),
                             static_cast<const double*>(bias), add, static_cast<double*>(y));
  }
  ASSIGN_OR_RETURN(const float* wide_x, Widen(ctx, dtype, x, size.x_size()));
  ASSIGN_OR_RETURN(const float* wide_w, Widen(ctx, dtype, w, size.w_size()));
  const float* wide_bias = nullptr;
  if (bias != nullptr) {
    ASSIGN_OR_RETURN(wide_bias, Widen(ctx, dtype, bias, size.out_channels));
  }
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(size.y_size() * sizeof(float)));
  float* wide_y = static_cast<float*>(space);
  RETURN_IF_ERROR(ConvForwardFloat(ctx, size, wide_x, wide_w, wide_bias, false, wide_y));
  Narrow(ctx, dtype, wide_y, req, y, size.y_size());
  return absl::OkStatus();
}

absl::Status ConvBackward(const OpContext& ctx, DType dtype, const ConvSize& size, const void* dy, const void* x,
                          const void* w, ConvOut dx, ConvOut dw, ConvOut dbias) {
  if (dtype == DType::kFloat32) {
    return ConvBackwardFloat(ctx, size, static_cast<const float*>(dy), static_cast<const float*>(x),
                             static_cast<const float*>(w), dx, dw, dbias);
  }
  if (dtype == DType::kFloat64) {
    return ConvBackwardDouble(ctx, size, static_cast<const double*>(dy), static_cast<const double*>(x),
                              static_cast<const double*>(w), dx, dw, dbias);
  }
  ASSIGN_OR_RETURN(const float* wide_dy, Widen(ctx, dtype, dy, size.y_size()));
  ASSIGN_OR_RETURN(const float* wide_x, Widen(ctx, dtype, x, size.x_size()));
  ASSIGN_OR_RETURN(const float* wide_w, Widen(ctx, dtype, w, size.w_size()));
  WideOut wide[] = {{dx, size.x_size()}, {dw, size.w_size()}, {dbias, size.out_channels}};
  ConvOut outs[3];
  for (int i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(outs[i], wide[i].Begin(ctx));
  }
  RETURN_IF_ERROR(ConvBackwardFloat(ctx, size, wide_dy, wide_x, wide_w, outs[0], outs[1], outs[2]));
  for (WideOut& w : wide) w.End(ctx, dtype);
  return absl::OkStatus();
}

}  // namespace gluond::ops
