// Bias: a vector along the rows of a matrix, added to every row; and its gradient, the sum of the rows.

#ifndef OPS_KERNEL_BIAS_H_
#define OPS_KERNEL_BIAS_H_

#include "ops/kernel/channels.h"
#include "ops/kernel/column_sums.h"

namespace gluond::ops {

namespace bias_internal {

template <class C>
struct AddToRows {
  int64_t cols;
  In<C> bias;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, bias[i % cols]); }
};

template <class X>
struct Element {
  X x;
  HOST_DEVICE void operator()(int64_t, int64_t i, double* terms) const { terms[0] = x[i]; }
};

}  // namespace bias_internal

// y[r, c] += bias[c].
template <class D>
absl::Status AddToRows(const OpContext& ctx, const TBlob& bias, const TBlob& y) {
  const int64_t cols = bias.Size();
  if (y.Size() == 0) return absl::OkStatus();
  return DispatchReal(y.dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    if constexpr (std::is_same_v<D, cpu>) {
      Parallel(ctx, y.Size() / cols, 1 + kGrain / cols, [&](int64_t begin, int64_t end) {
        C tile[kTile];
        for (int64_t col = 0; col < cols; col += kTile) {
          const int64_t n = std::min(kTile, cols - col);
          LoadTile(bias, col, n, tile);
          for (int64_t row = begin; row < end; ++row) StoreTile(y, kAddTo, row * cols + col, n, tile);
        }
      });
      return absl::OkStatus();
    } else {
      return ForEach<D>(ctx, y.Size(), bias_internal::AddToRows<C>{cols, In<C>(bias), Out<C>(y, kAddTo)});
    }
  });
}

// y[c] = sum_r x[r, c].
template <class D>
absl::Status SumColumns(const OpContext& ctx, const TBlob& x, OpReqType req, const TBlob& y) {
  const int64_t cols = y.Size();
  if (req == kNullOp || cols == 0) return absl::OkStatus();
  return WithAccess(y.dtype, {x.dtype}, /*add=*/false, [&](auto c, auto* in_type, auto*) {
    using X = std::remove_pointer_t<decltype(in_type)>;
    return ColumnSums<D, decltype(c), 1>(ctx, x.Size() / cols, cols, bias_internal::Element<X>{X(x)}, {{y, req}});
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_BIAS_H_
