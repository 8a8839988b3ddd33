// Convolution of tensors on a GPU: by cuDNN where it can, else as a product of columns.

#include "ops/kernel/conv_volume.h"

#include "ops/kernel/gemm.h"
#include "ops/kernel/row_geometry.h"

namespace gluond::ops {
namespace {

// Element i of the columns: row (channel, tap), column an output position.
template <class C>
struct Unfold {
  ConvSize s;
  const C* x;
  C* columns;

  HOST_DEVICE void operator()(int64_t i) const {
    int64_t position = i % s.outputs(), row = i / s.outputs(), at = 0, tap = row % s.taps();
    int64_t o[3], k[3];
    for (int axis = 2; axis >= 0; --axis) {
      o[axis] = position % s.out[axis];
      position /= s.out[axis];
      k[axis] = tap % s.kernel[axis];
      tap /= s.kernel[axis];
    }
    bool inside = true;
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t p = o[axis] * s.stride[axis] - s.pad[axis] + k[axis] * s.dilate[axis];
      inside = inside && p >= 0 && p < s.in[axis];
      at = at * s.in[axis] + p;
    }
    columns[i] = inside ? x[row / s.taps() * s.inputs() + at] : C(0);
  }
};

// Element i of an image: the sum of the columns' elements that Unfold takes from it.
template <class C>
struct Fold {
  ConvSize s;
  const C* columns;
  C* x;
  bool add;

  HOST_DEVICE void operator()(int64_t i) const {
    int64_t rest = i % s.inputs(), p[3];
    const int64_t first_row = i / s.inputs() * s.taps();
    for (int axis = 2; axis >= 0; --axis) {
      p[axis] = rest % s.in[axis] + s.pad[axis];
      rest /= s.in[axis];
    }
    C sum = 0;
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
      const int64_t k[3] = {tap / (s.kernel[1] * s.kernel[2]), tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
      int64_t position = 0;
      bool seen = true;
      for (int axis = 0; axis < 3; ++axis) {
        const int64_t from = p[axis] - k[axis] * s.dilate[axis], o = from / s.stride[axis];
        seen = seen && from >= 0 && from % s.stride[axis] == 0 && o < s.out[axis];
        position = position * s.out[axis] + o;
      }
      if (seen) sum += columns[(first_row + tap) * s.outputs() + position];
    }
    x[i] = add ? x[i] + sum : sum;
  }
};

constexpr int64_t kUnfoldGrain = 4096;

// The matrices of one image, one for each group: weights (filters, rows), columns (rows, positions), y (filters,
// positions).
struct Matrices {
  explicit Matrices(const ConvSize& s)
      : filters(s.out_channels / s.groups),
        rows(s.in_channels / s.groups * s.taps()),
        positions(s.outputs()),
        x(s.in_channels * s.inputs()),
        y(s.out_channels * s.outputs()),
        columns(s.in_channels * s.taps() * positions) {}
  int64_t filters, rows, positions;
  int64_t x, y, columns;  // Elements of one image.
};

template <class C>
absl::Status Forward(const OpContext& ctx, const ConvSize& s, const TBlob& x_blob, const TBlob& w_blob, const TBlob* bias,
                     const Target& y_target) {
  RETURN_IF_ERROR(CheckColumns(s));
  const Matrices m(s);
  ASSIGN_OR_RETURN(const C* x, (As<gpu, C>(ctx, x_blob)));
  ASSIGN_OR_RETURN(const C* w, (As<gpu, C>(ctx, w_blob)));
  ASSIGN_OR_RETURN(C * columns, Space<C>(ctx, m.columns));
  Stage<gpu, C> y;
  RETURN_IF_ERROR(y.Begin(ctx, y_target, false));
  if (y.data == nullptr) return absl::OkStatus();
  for (int64_t n = 0; n < s.batch; ++n) {
    RETURN_IF_ERROR(ForEach<gpu>(ctx, m.columns, Unfold<C>{s, x + n * m.x, columns}, kUnfoldGrain));
    RETURN_IF_ERROR(Gemm<gpu>(ctx, DTypeOf<C>, {.m = m.filters, .n = m.positions, .k = m.rows, .batch = s.groups}, w, columns,
                              y.req, y.data + n * m.y));
  }
  if (bias != nullptr) {
    const TBlob whole = {y.data, y_target.blob.shape, DTypeOf<C>, ctx.device};
    RETURN_IF_ERROR(AddToChannels<gpu>(ctx, *bias, whole));
  }
  return y.Finish(ctx);
}

template <class C>
absl::Status Backward(const OpContext& ctx, const ConvSize& s, const TBlob& dy_blob, const TBlob& x_blob, const TBlob& w_blob,
                      const Target& dx_target, const Target& dw_target) {
  RETURN_IF_ERROR(CheckColumns(s));
  const Matrices m(s);
  ASSIGN_OR_RETURN(const C* dy, (As<gpu, C>(ctx, dy_blob)));
  ASSIGN_OR_RETURN(C * columns, Space<C>(ctx, m.columns));
  Stage<gpu, C> dx, dw;
  RETURN_IF_ERROR(dx.Begin(ctx, dx_target, false));
  RETURN_IF_ERROR(dw.Begin(ctx, dw_target, false));
  if (dx.data != nullptr) {
    ASSIGN_OR_RETURN(const C* w, (As<gpu, C>(ctx, w_blob)));
    const GemmSize size = {.m = m.rows, .n = m.positions, .k = m.filters, .transpose_a = true, .batch = s.groups};
    for (int64_t n = 0; n < s.batch; ++n) {
      RETURN_IF_ERROR(Gemm<gpu>(ctx, DTypeOf<C>, size, w, dy + n * m.y, kWriteTo, columns));
      RETURN_IF_ERROR(ForEach<gpu>(ctx, m.x, Fold<C>{s, columns, dx.data + n * m.x, dx.req == kAddTo}, kUnfoldGrain));
    }
  }
  if (dw.data != nullptr) {
    ASSIGN_OR_RETURN(const C* x, (As<gpu, C>(ctx, x_blob)));
    const GemmSize size = {.m = m.filters, .n = m.rows, .k = m.positions, .transpose_b = true, .batch = s.groups};
    for (int64_t n = 0; n < s.batch; ++n) {
      RETURN_IF_ERROR(ForEach<gpu>(ctx, m.columns, Unfold<C>{s, x + n * m.x, columns}, kUnfoldGrain));
      RETURN_IF_ERROR(Gemm<gpu>(ctx, DTypeOf<C>, size, dy + n * m.y, columns, n > 0 ? kAddTo : dw.req, dw.data));
    }
  }
  RETURN_IF_ERROR(dx.Finish(ctx));
  return dw.Finish(ctx);
}

template <class C>
struct AddBias {
  RowGeometry shape;
  In<C> bias;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, bias[i / shape.inner % shape.n]); }
};

}  // namespace

template <>
absl::Status AddToChannels<gpu>(const OpContext& ctx, const TBlob& bias, const TBlob& y) {
  return DispatchReal(y.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<gpu>(ctx, y.Size(), AddBias<C>{RowsOf(y.shape, 1), In<C>(bias), Out<C>(y, kAddTo)});
  });
}

template <>
absl::Status VolumeForward<gpu>(const OpContext& ctx, const ConvSize& s, const TBlob& x, const TBlob& w, const TBlob* bias,
                                const Target& y) {
  if (y.req == kNullOp) return absl::OkStatus();
  if (s.flat()) {
    ASSIGN_OR_RETURN(const bool done, ConvForwardByDnn(ctx, x.dtype, s, x.data, w.data, y.req, y.blob.data));
    if (done) return bias == nullptr ? absl::OkStatus() : AddToChannels<gpu>(ctx, *bias, y.blob);
  }
  return DispatchReal(x.dtype, [&](auto c) { return Forward<decltype(c)>(ctx, s, x, w, bias, y); });
}

template <>
absl::Status VolumeBackward<gpu>(const OpContext& ctx, const ConvSize& s, const TBlob& dy, const TBlob& x, const TBlob& w,
                                 const Target& dx, const Target& dw, const Target& dbias) {
  bool has_dx = dx.req == kNullOp, has_dw = dw.req == kNullOp;
  if (s.flat() && !has_dx) {
    ASSIGN_OR_RETURN(has_dx, ConvDataGradientByDnn(ctx, dy.dtype, s, dy.data, w.data, {dx.blob.data, dx.req}));
  }
  if (s.flat() && !has_dw) {
    ASSIGN_OR_RETURN(has_dw, ConvFilterGradientByDnn(ctx, dy.dtype, s, dy.data, x.data, {dw.blob.data, dw.req}));
  }
  if (!has_dx || !has_dw) {
    RETURN_IF_ERROR(DispatchReal(
        dy.dtype, [&](auto c) { return Backward<decltype(c)>(ctx, s, dy, x, w, has_dx ? Target() : dx, has_dw ? Target() : dw); }));
  }
  return SumChannels<gpu>(ctx, dy, dbias);
}

}  // namespace gluond::ops
