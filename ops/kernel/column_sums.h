// Column sums: y_k[c] = sum over r in [0, rows) of term k at (r, c), for `terms` matrices that are computed, not
// stored.
//
//   struct Element {
//     In<float> x;
//     HOST_DEVICE void operator()(int64_t row, int64_t i, double* terms) const { terms[0] = x[i]; }
//   };
//   ColumnSums<D, float, 1>(ctx, rows, cols, Element{In<float>(x)}, {{y, req}})
//
// i is row * cols + column, the element. The sums are made in double, in an order that depends on the shape alone: as
// exact as `sum`, however many rows there are.

#ifndef OPS_KERNEL_COLUMN_SUMS_H_
#define OPS_KERNEL_COLUMN_SUMS_H_

#include "ops/kernel/map.h"

namespace gluond::ops {

// Where a term's sums go; one with kNullOp is left out.
struct ColumnSum {
  TBlob y;
  OpReqType req;
};

namespace column_sums_internal {

// Columns that a CPU's thread adds up at a time: the sums stay in the first-level cache.
inline constexpr int64_t kWidth = 256;

template <class C, int terms, class F>
void SumRange(const F& f, int64_t rows, int64_t cols, const ColumnSum (&sums)[terms], int64_t begin, int64_t end) {
  double acc[terms][kWidth];
  C tile[kWidth];
  const F local = f;  // So that its members stay in registers.
  for (int64_t col = begin; col < end; col += kWidth) {
    const int64_t n = std::min(kWidth, end - col);
    for (double(&sum)[kWidth] : acc) std::fill_n(sum, n, 0.0);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = row * cols + col;
      for (int64_t j = 0; j < n; ++j) {
        double term[terms];
        local(row, first + j, term);
        for (int k = 0; k < terms; ++k) acc[k][j] += term[k];
      }
    }
    for (int k = 0; k < terms; ++k) {
      if (sums[k].req == kNullOp) continue;
      for (int64_t j = 0; j < n; ++j) tile[j] = static_cast<C>(acc[k][j]);
      StoreTile(sums[k].y, sums[k].req, col, n, tile);
    }
  }
}

#ifdef GLUOND_GPU

template <class C, int terms>
struct Outputs {
  Out<C> y[terms];
  bool set[terms];
};

// 32 neighbouring columns by 8 shares of the rows, so that a warp reads what lies together.
template <class C, int terms, class F>
__global__ void SumKernel(int64_t rows, int64_t cols, F f, Outputs<C, terms> out) {
  __shared__ double share[terms][8][32];
  const int column = threadIdx.x % 32, part = threadIdx.x / 32;
  for (int64_t first = blockIdx.x * int64_t{32}; first < cols; first += int64_t{gridDim.x} * 32) {
    const int64_t col = first + column;
    double sum[terms] = {};
    for (int64_t row = part; row < rows && col < cols; row += 8) {
      double term[terms];
      f(row, row * cols + col, term);
      for (int k = 0; k < terms; ++k) sum[k] += term[k];
    }
    for (int k = 0; k < terms; ++k) share[k][part][column] = sum[k];
    __syncthreads();
    for (int k = 0; k < terms && part == 0 && col < cols; ++k) {
      for (int p = 1; p < 8; ++p) sum[k] += share[k][p][column];
      if (out.set[k]) out.y[k].Set(col, static_cast<C>(sum[k]));
    }
    __syncthreads();
  }
}

#endif  // GLUOND_GPU

}  // namespace column_sums_internal

// C: what the results are computed in before they are stored. y_k has `cols` elements.
template <class D, class C, int terms, class F>
absl::Status ColumnSums(const OpContext& ctx, int64_t rows, int64_t cols, const F& f, const ColumnSum (&sums)[terms]) {
  bool wanted = false;
  for (const ColumnSum& sum : sums) wanted = wanted || sum.req != kNullOp;
  if (!wanted || cols == 0) return absl::OkStatus();
  if constexpr (std::is_same_v<D, cpu>) {
    Parallel(ctx, cols, std::max<int64_t>(64, kGrain / (rows + 1)), [&](int64_t begin, int64_t end) {
      column_sums_internal::SumRange<C>(f, rows, cols, sums, begin, end);
    });
    return absl::OkStatus();
  } else {
#ifdef GLUOND_GPU
    column_sums_internal::Outputs<C, terms> out;
    for (int k = 0; k < terms; ++k) {
      out.y[k] = Out<C>(sums[k].y, sums[k].req);
      out.set[k] = sums[k].req != kNullOp;
    }
    const auto blocks = static_cast<unsigned>(std::min<int64_t>((cols + 31) / 32, int64_t{1} << 20));
    return Launch(ctx, column_sums_internal::SumKernel<C, terms, F>, blocks, kBlockThreads, rows, cols, f, out);
#endif
  }
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_COLUMN_SUMS_H_
