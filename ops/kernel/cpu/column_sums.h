// Column sums on a CPU: each thread adds up all rows of its columns.

namespace gluond::ops::column_sums_internal {

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

template <class C, int terms, class F>
absl::Status Run(cpu, const OpContext& ctx, int64_t rows, int64_t cols, const F& f, const ColumnSum (&sums)[terms]) {
  Parallel(ctx, cols, std::max<int64_t>(64, kGrain / (rows + 1)),
           [&](int64_t begin, int64_t end) { SumRange<C>(f, rows, cols, sums, begin, end); });
  return absl::OkStatus();
}

}  // namespace gluond::ops::column_sums_internal
