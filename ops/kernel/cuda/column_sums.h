// Column sums on a GPU: a block for 32 columns, or for a piece of their rows where there are few columns.

namespace gluond::ops::column_sums_internal {

template <class C, int terms>
struct Outputs {
  Out<C> y[terms];
  bool set[terms];
};

// 32 neighbouring columns by 8 shares of the rows, so that a warp reads what lies together. The sums go to `out`; or, of piece
// blockIdx.y of the rows, to partial[piece][term][column].
template <class C, int terms, class F>
__global__ void SumKernel(int64_t rows, int64_t cols, F f, Outputs<C, terms> out, double* partial) {
  __shared__ double share[terms][8][32];
  const int column = threadIdx.x % 32, part = threadIdx.x / 32;
  const PieceOf piece(rows);
  for (int64_t first = blockIdx.x * int64_t{32}; first < cols; first += int64_t{gridDim.x} * 32) {
    const int64_t col = first + column;
    double sum[terms] = {};
    for (int64_t row = piece.begin + part; row < piece.end && col < cols; row += 8) {
      double term[terms];
      f(row, row * cols + col, term);
      for (int k = 0; k < terms; ++k) sum[k] += term[k];
    }
    for (int k = 0; k < terms; ++k) share[k][part][column] = sum[k];
    __syncthreads();
    for (int k = 0; k < terms && part == 0 && col < cols; ++k) {
      for (int p = 1; p < 8; ++p) sum[k] += share[k][p][column];
      if (partial != nullptr) {
        partial[(int64_t{blockIdx.y} * terms + k) * cols + col] = sum[k];
      } else if (out.set[k]) {
        out.y[k].Set(col, static_cast<C>(sum[k]));
      }
    }
    __syncthreads();
  }
}

template <class C, int terms>
struct SumPieces {
  const double* partial;
  int64_t pieces, cols;
  Outputs<C, terms> out;

  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t k = i / cols, col = i % cols;
    if (!out.set[k]) return;
    double sum = 0;
    for (int64_t p = 0; p < pieces; ++p) sum += partial[(p * terms + k) * cols + col];
    out.y[k].Set(col, static_cast<C>(sum));
  }
};

template <class C, int terms, class F>
absl::Status Run(gpu, const OpContext& ctx, int64_t rows, int64_t cols, const F& f, const ColumnSum (&sums)[terms]) {
  Outputs<C, terms> out;
  for (int k = 0; k < terms; ++k) {
    out.y[k] = Out<C>(sums[k].y, sums[k].req);
    out.set[k] = sums[k].req != kNullOp;
  }
  const dim3 grid = Grid((cols + 31) / 32, rows / 64);
  double* partial = nullptr;
  if (grid.y > 1) {
    ASSIGN_OR_RETURN(void* const scratch, ctx.scratch->Get(grid.y * terms * static_cast<size_t>(cols) * sizeof(double)));
    partial = static_cast<double*>(scratch);
  }
  RETURN_IF_ERROR(Launch(ctx, SumKernel<C, terms, F>, grid, kBlockThreads, rows, cols, f, out, partial));
  if (partial == nullptr) return absl::OkStatus();
  return ForEach<gpu>(ctx, terms * cols, SumPieces<C, terms>{partial, grid.y, cols, out});
}

}  // namespace gluond::ops::column_sums_internal
