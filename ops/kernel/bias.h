// Bias: a vector along the rows of a matrix, added to every row; and its gradient, the sum of the rows.

#ifndef OPS_KERNEL_BIAS_H_
#define OPS_KERNEL_BIAS_H_

#include "ops/kernel/map.h"

namespace gluond::ops {

namespace bias_internal {

template <class C>
struct AddToRows {
  int64_t cols;
  In<C> bias;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, bias[i % cols]); }
};

template <class C>
struct SumColumn {
  int64_t rows, cols;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t col) const {
    C sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += x[row * cols + col];
    y.Set(col, sum);
  }
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

// y[c] = sum_r x[r, c], in the order of the rows.
template <class D>
absl::Status SumColumns(const OpContext& ctx, const TBlob& x, OpReqType req, const TBlob& y) {
  const int64_t cols = y.Size();
  if (req == kNullOp || cols == 0) return absl::OkStatus();
  const int64_t rows = x.Size() / cols;
  return DispatchReal(y.dtype, [&](auto c) -> absl::Status {
    using C = decltype(c);
    if constexpr (std::is_same_v<D, cpu>) {
      Parallel(ctx, cols, std::max<int64_t>(64, kGrain / (rows + 1)), [&](int64_t begin, int64_t end) {
        C sum[kTile], tile[kTile];
        for (int64_t col = begin; col < end; col += kTile) {
          const int64_t n = std::min(kTile, end - col);
          std::fill_n(sum, n, C{0});
          for (int64_t row = 0; row < rows; ++row) {
            LoadTile(x, row * cols + col, n, tile);
            for (int64_t j = 0; j < n; ++j) sum[j] += tile[j];
          }
          StoreTile(y, req, col, n, sum);
        }
      });
      return absl::OkStatus();
    } else {
      return ForEach<D>(ctx, cols, bias_internal::SumColumn<C>{rows, cols, In<C>(x), Out<C>(y, req)});
    }
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_BIAS_H_
