// Column sums on a GPU: a block for 32 columns.

namespace gluond::ops::column_sums_internal {

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

template <class C, int terms, class F>
absl::Status Run(gpu, const OpContext& ctx, int64_t rows, int64_t cols, const F& f, const ColumnSum (&sums)[terms]) {
  Outputs<C, terms> out;
  for (int k = 0; k < terms; ++k) {
    out.y[k] = Out<C>(sums[k].y, sums[k].req);
    out.set[k] = sums[k].req != kNullOp;
  }
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((cols + 31) / 32, int64_t{1} << 20));
  return Launch(ctx, SumKernel<C, terms, F>, blocks, kBlockThreads, rows, cols, f, out);
}

}  // namespace gluond::ops::column_sums_internal
