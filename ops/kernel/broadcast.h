// Broadcast: y = f(a, b) where a and b broadcast to y's shape, as in NumPy.

#ifndef OPS_KERNEL_BROADCAST_H_
#define OPS_KERNEL_BROADCAST_H_

#include "ops/kernel/map.h"
#include "ops/kernel/walk.h"

namespace gluond::ops {

// The broadcast of a and b, as far as they are known. INVALID_ARGUMENT: an axis of neither equal sizes nor 1.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);

namespace broadcast_internal {

// One tensor of a row of the walk: tiles in place, converted, or of one value over and over.
template <class C>
class RowTiles {
 public:
  RowTiles(const TBlob& x, int64_t stride) : x_(x), stride_(stride) {}
  void Begin(int64_t offset, int64_t n) {
    offset_ = offset;
    if (stride_ == 0) std::fill_n(tile_, std::min(n, kTile), LoadAs<C>(x_.dtype, x_.data, offset));
  }
  const C* Tile(int64_t i, int64_t n) {
    if (stride_ == 0) return tile_;
    if (x_.dtype == DTypeOf<C>) return static_cast<const C*>(x_.data) + offset_ + i;
    LoadTile(x_, offset_ + i, n, tile_);
    return tile_;
  }

 private:
  const TBlob& x_;
  const int64_t stride_;
  int64_t offset_ = 0;
  alignas(64) C tile_[kTile];
};

template <class F, class C>
void Rows(const F& f, const Walk<2>& walk, const TBlob* x, OpReqType req, const TBlob& y, int64_t begin, int64_t end) {
  const int64_t n = walk.row_size();
  const bool direct = y.dtype == DTypeOf<C> && req != kAddTo;
  RowTiles<C> a(x[0], walk.row_stride(0)), b(x[1], walk.row_stride(1));
  alignas(64) C buffer[kTile];
  const F local = f;
  for (int64_t row = begin; row < end; ++row) {
    const auto offset = walk.Row(row);
    a.Begin(offset.at[0], n);
    b.Begin(offset.at[1], n);
    for (int64_t i = 0; i < n; i += kTile) {
      const int64_t count = std::min(kTile, n - i);
      const C *const u = a.Tile(i, count), *const v = b.Tile(i, count);
      C* const out = direct ? static_cast<C*>(y.data) + row * n + i : buffer;
#pragma GCC ivdep
      for (int64_t j = 0; j < count; ++j) out[j] = local(u[j], v[j]);
      if (!direct) StoreTile(y, req, row * n + i, count, out);
    }
  }
}

#ifdef GLUOND_GPU
template <class C, class F>
__global__ void Kernel(Walk<2> walk, F f, In<C> a, In<C> b, Out<C> y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < walk.size; i += step) {
    const auto offset = walk(i);
    y.Set(i, f(a[offset.at[0]], b[offset.at[1]]));
  }
}
#endif

}  // namespace broadcast_internal

// y = f(x[0], x[1]). y may be an input of y's own shape.
template <class D, class F>
absl::Status Broadcast(const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y) {
  if constexpr (std::is_same_v<D, cpu>) {  // On a GPU the kernel below is as fast.
    if (x[0].shape == x[1].shape) return Map<D, 2>(ctx, f, x, req, y);
  }
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  Strides strides[2];
  for (int t = 0; t < 2; ++t) BroadcastStrides(x[t].shape, y.shape, strides[t]);
  const Walk<2> walk(y.shape, strides);
  const auto run = [&](auto c) {
    using C = decltype(c);
    if constexpr (std::is_same_v<D, cpu>) {
      const int64_t grain = std::max<int64_t>(1, kGrain / walk.row_size());
      Parallel(ctx, walk.rows(), grain, [&](int64_t begin, int64_t end) {
        broadcast_internal::Rows<F, C>(f, walk, x, req, y, begin, end);
      });
      return absl::OkStatus();
    } else {
#ifdef GLUOND_GPU
      return Launch(ctx, broadcast_internal::Kernel<C, F>, Blocks(walk.size), kBlockThreads, walk, f, In<C>(x[0]),
                    In<C>(x[1]), Out<C>(y, req));
#endif
    }
  };
  if constexpr (kTakesIntegers<F, 2>) {
    return DispatchCompute(y.dtype, run);
  } else {
    return DispatchReal(y.dtype, run);
  }
}

template <class F>
struct BroadcastBinary {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    return Broadcast<D>(ctx, MakeFunctor<F>(attrs), x.data(), req[0], y[0]);
  }
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_BROADCAST_H_
