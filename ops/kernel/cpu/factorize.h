// Factorize on a CPU: OpenBLAS' LAPACK for blocks, of which each thread of ours computes its own; OpenBLAS stays
// single-threaded, as it would bring a pool of its own. LAPACK counts by columns: to it a row-major matrix is the transposed
// one, and the lower triangle the upper one.

#include "cblas.h"

extern "C" {
void spotrf_(const char* uplo, const int* n, float* a, const int* lda, int* info);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void spotrs_(const char* uplo, const int* n, const int* columns, const float* a, const int* lda, float* b, const int* ldb,
             int* info);
void dpotrs_(const char* uplo, const int* n, const int* columns, const double* a, const int* lda, double* b, const int* ldb,
             int* info);
void sgetrf_(const int* m, const int* n, float* a, const int* lda, int* pivot, int* info);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivot, int* info);
void sgetrs_(const char* trans, const int* n, const int* columns, const float* a, const int* lda, const int* pivot, float* b,
             const int* ldb, int* info);
void dgetrs_(const char* trans, const int* n, const int* columns, const double* a, const int* lda, const int* pivot, double* b,
             const int* ldb, int* info);
void slaswp_(const int* columns, float* a, const int* lda, const int* first, const int* last, const int* pivot, const int* step);
void dlaswp_(const int* columns, double* a, const int* lda, const int* first, const int* last, const int* pivot, const int* step);
}

namespace gluond::ops::factorize_internal {

// The functions of each type by one name.
template <class C>
struct Lapack;
template <>
struct Lapack<float> {
  static constexpr auto potrf = spotrf_;
  static constexpr auto potrs = spotrs_;
  static constexpr auto getrf = sgetrf_;
  static constexpr auto getrs = sgetrs_;
  static constexpr auto laswp = slaswp_;
  static constexpr auto gemm = cblas_sgemm;
  static constexpr auto trsm = cblas_strsm;
  static constexpr auto trmm = cblas_strmm;
};
template <>
struct Lapack<double> {
  static constexpr auto potrf = dpotrf_;
  static constexpr auto potrs = dpotrs_;
  static constexpr auto getrf = dgetrf_;
  static constexpr auto getrs = dgetrs_;
  static constexpr auto laswp = dlaswp_;
  static constexpr auto gemm = cblas_dgemm;
  static constexpr auto trsm = cblas_dtrsm;
  static constexpr auto trmm = cblas_dtrmm;
};

inline constexpr int64_t kPanel = 128;  // Columns of a panel. Smaller matrices are one call each.
inline constexpr int64_t kLines = 64;   // The least rows or columns of a large matrix that one thread computes.

inline void StaySingleThreaded() { [[maybe_unused]] static const bool done = (openblas_set_num_threads(1), true); }

// body(begin, end) over the lines of [0, lines), so many at a time that they take about a tenth of a second, if each takes
// `work` operations. Between two calls of `body` the run is asked whether it goes on.
template <class Body>
absl::Status ByLines(const OpContext& ctx, int64_t lines, double work, const Body& body) {
  constexpr double kAtATime = 4e9;
  const int64_t most = std::max<int64_t>(kLines, static_cast<int64_t>(std::min(kAtATime / (work + 1), 1e15)));
  const int64_t grain = std::max<int64_t>(1, std::min<int64_t>(kLines, static_cast<int64_t>(kGrain * 8 / (work + 1))));
  for (int64_t first = 0; first < lines; first += most) {
    RETURN_IF_ERROR(CheckInterrupted());
    Parallel(ctx, std::min(most, lines - first), grain, [&](int64_t begin, int64_t end) { body(first + begin, first + end); });
  }
  return absl::OkStatus();
}

// The first diagonal element of a block that is no positive number, counted from 1, or 0.
template <class C>
int64_t FirstNotPositive(int64_t size, const C* block, int64_t stride) {
  for (int64_t i = 0; i < size; ++i) {
    if (!(block[i * stride + i] > 0)) return i + 1;
  }
  return 0;
}

// The factor of one diagonal block.
template <class C>
int64_t CholeskyBlock(int64_t size, C* block, int64_t stride) {
  const int n = static_cast<int>(size), lda = static_cast<int>(stride);
  int info = 0;
  Lapack<C>::potrf("U", &n, block, &lda, &info);
  return info > 0 ? info : FirstNotPositive(size, block, stride);
}

template <class C>
absl::StatusOr<int64_t> CholeskyByPanels(const OpContext& ctx, int64_t n, C* m) {
  for (int64_t k = 0; k < n; k += kPanel) {
    RETURN_IF_ERROR(CheckInterrupted());
    const int64_t size = std::min(kPanel, n - k), next = k + size;
    C* const block = m + k * n + k;
    if (const int64_t bad = CholeskyBlock(size, block, n)) return k + bad;
    Parallel(ctx, n - next, kLines, [&](int64_t begin, int64_t end) {
      Lapack<C>::trsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, end - begin, size, 1, block, n,
                      m + (next + begin) * n + k, n);
    });
    Parallel(ctx, n - next, kLines, [&](int64_t begin, int64_t end) {  // Rows of what is left, up to the diagonal.
      C* const rows = m + (next + begin) * n;
      Lapack<C>::gemm(CblasRowMajor, CblasNoTrans, CblasTrans, end - begin, end, size, -1, rows + k, n, m + next * n + k, n, 1,
                      rows + next, n);
    });
  }
  return 0;
}

template <class C>
absl::Status Cholesky(cpu, const OpContext& ctx, const SquareSize& s, C* matrices, int64_t* bad) {
  StaySingleThreaded();
  if (s.n <= kPanel) {
    return ByLines(ctx, s.batch, static_cast<double>(s.n * s.n * s.n), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) bad[b] = CholeskyBlock(s.n, matrices + b * s.matrix(), s.n);
    });
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    ASSIGN_OR_RETURN(bad[b], CholeskyByPanels(ctx, s.n, matrices + b * s.matrix()));
  }
  return absl::OkStatus();
}

// Columns [begin, end) of all matrices one after the other become columns of the identity, and then those of the inverse:
// solve(matrix, columns, x) solves for them.
template <class C, class Solve>
absl::Status InvertByColumns(const OpContext& ctx, const SquareSize& s, C* inverse, const Solve& solve) {
  StaySingleThreaded();
  return ByLines(ctx, s.batch * s.n, 2.0 * static_cast<double>(s.matrix()), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t matrix = begin / s.n, first = begin % s.n, columns = std::min(end - begin, s.n - first);
      C* const x = inverse + begin * s.n;
      std::fill_n(x, columns * s.n, C(0));
      for (int64_t j = 0; j < columns; ++j) x[j * s.n + first + j] = 1;
      solve(matrix, static_cast<int>(columns), x);
      begin += columns;
    }
  });
}

template <class C>
absl::Status OfCholesky(cpu, const OpContext& ctx, const SquareSize& s, const C* l, C* inverse) {
  return InvertByColumns(ctx, s, inverse, [&](int64_t matrix, int columns, C* x) {
    const int n = static_cast<int>(s.n);
    int info = 0;
    Lapack<C>::potrs("U", &n, &columns, l + matrix * s.matrix(), &n, x, &n, &info);
  });
}

template <class C>
absl::Status LuByPanels(const OpContext& ctx, int64_t n, C* m, int32_t* pivot) {
  const int lda = static_cast<int>(n), step = 1;
  for (int64_t k = 0; k < n; k += kPanel) {
    RETURN_IF_ERROR(CheckInterrupted());
    const int size = static_cast<int>(std::min(kPanel, n - k)), rows = static_cast<int>(n - k);
    const int first = static_cast<int>(k + 1), last = static_cast<int>(k) + size;
    C* const panel = m + k * n + k;
    int info = 0;
    Lapack<C>::getrf(&rows, &size, panel, &lda, pivot + k, &info);
    for (int64_t i = k; i < last; ++i) pivot[i] += static_cast<int32_t>(k);
    const auto exchange = [&](int64_t begin, int64_t end) {
      const int columns = static_cast<int>(end - begin);
      if (columns > 0) Lapack<C>::laswp(&columns, m + begin * n, &lda, &first, &last, pivot, &step);
    };
    Parallel(ctx, k, kLines, exchange);
    Parallel(ctx, n - last, kLines, [&](int64_t begin, int64_t end) {  // Columns of what is left.
      C* const columns = m + (last + begin) * n;
      exchange(last + begin, last + end);
      Lapack<C>::trsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasUnit, size, end - begin, 1, panel, n, columns + k,
                      n);
      Lapack<C>::gemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n - last, end - begin, size, -1, panel + size, n, columns + k, n,
                      1, columns + last, n);
    });
  }
  return absl::OkStatus();
}

template <class C>
absl::Status Lu(cpu, const OpContext& ctx, const SquareSize& s, C* matrices, int32_t* pivot) {
  StaySingleThreaded();
  if (s.n <= kPanel) {
    return ByLines(ctx, s.batch, static_cast<double>(s.n * s.n * s.n), [&](int64_t begin, int64_t end) {
      const int n = static_cast<int>(s.n);
      int info = 0;
      for (int64_t b = begin; b < end; ++b) {
        Lapack<C>::getrf(&n, &n, matrices + b * s.matrix(), &n, pivot + b * s.n, &info);
      }
    });
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    RETURN_IF_ERROR(LuByPanels(ctx, s.n, matrices + b * s.matrix(), pivot + b * s.n));
  }
  return absl::OkStatus();
}

template <class C>
absl::Status OfLu(cpu, const OpContext& ctx, const SquareSize& s, const C* lu, const int32_t* pivot, C* inverse) {
  return InvertByColumns(ctx, s, inverse, [&](int64_t matrix, int columns, C* x) {
    const int n = static_cast<int>(s.n);
    int info = 0;
    Lapack<C>::getrs("N", &n, &columns, lu + matrix * s.matrix(), &n, pivot + matrix * s.n, x, &n, &info);
  });
}

// A line is a column of b, or a row where a stands on the right.
template <bool solve, class C>
absl::Status WithTriangles(cpu, const OpContext& ctx, const TriangularSize& s, const C* a, C* b) {
  StaySingleThreaded();
  const int64_t n = s.n(), each = s.right ? s.rows : s.columns;
  return ByLines(ctx, s.batch * each, static_cast<double>(n * n), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t matrix = begin / each, first = begin % each, lines = std::min(end - begin, each - first);
      C* const x = b + matrix * s.rows * s.columns + first * (s.right ? s.columns : 1);
      (solve ? Lapack<C>::trsm : Lapack<C>::trmm)(CblasRowMajor, s.right ? CblasRight : CblasLeft,
                                                  s.lower ? CblasLower : CblasUpper, s.transposed ? CblasTrans : CblasNoTrans,
                                                  CblasNonUnit, s.right ? lines : s.rows, s.right ? s.columns : lines,
                                                  static_cast<C>(s.alpha), a + matrix * n * n, n, x, s.columns);
      begin += lines;
    }
  });
}

}  // namespace gluond::ops::factorize_internal
