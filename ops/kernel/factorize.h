// Factorize: the factors of square matrices, solutions by these factors, and products with triangular matrices. LAPACK and
// BLAS compute them on a CPU, kernels of many threads on a GPU. Matrices follow one another; C is float or double.
//
// Large matrices are factorized by panels of columns, and solved for by groups of lines; a GPU solves for all lines at once.
// Before each of those the run is asked whether it is still wanted (engine/core/interruption.h).

#ifndef OPS_KERNEL_FACTORIZE_H_
#define OPS_KERNEL_FACTORIZE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/device.h"
#include "engine/core/op_context.h"

namespace gluond::ops {

// `batch` matrices of n x n.
struct SquareSize {
  int64_t batch, n;
  HOST_DEVICE int64_t matrix() const { return n * n; }
};

// The lower triangle of each row-major matrix becomes L, with the matrix = L L^T; what is above the diagonal is neither
// read nor kept. bad[b]: the first row and column, counted from 1, that makes the matrix not positive definite, or 0.
template <class D, class C>
absl::Status FactorizeCholesky(const OpContext& ctx, const SquareSize& s, C* matrices, int64_t* bad);
// The inverses of row-major matrices L L^T, from L; only the lower triangle of L is read. `inverse` overlaps nothing.
template <class D, class C>
absl::Status InvertCholesky(const OpContext& ctx, const SquareSize& s, const C* l, C* inverse);

// Each column-major matrix becomes L, without its diagonal of ones, and U, with P times the matrix = L U. Row k was
// exchanged with row pivot[b * n + k], counted from 1 as LAPACK does. A matrix without an inverse has a 0 on U's diagonal.
template <class D, class C>
absl::Status FactorizeLu(const OpContext& ctx, const SquareSize& s, C* matrices, int32_t* pivot);
// The column-major inverses from those factors; of a matrix that has none, numbers without meaning.
template <class D, class C>
absl::Status InvertLu(const OpContext& ctx, const SquareSize& s, const C* lu, const int32_t* pivot, C* inverse);

// Row-major matrices b of rows x columns, with a triangular matrix on their left or, with `right`, on their right. `lower`
// says which triangle of a is read, `transposed` that a stands there transposed.
struct TriangularSize {
  int64_t batch, rows, columns;
  bool right, transposed, lower;
  double alpha;
  HOST_DEVICE int64_t n() const { return right ? columns : rows; }
};
// b becomes x with a x = alpha b, or x a = alpha b. Requires: b is not empty.
template <class D, class C>
absl::Status SolveTriangular(const OpContext& ctx, const TriangularSize& s, const C* a, C* b);
// b becomes alpha a b, or alpha b a. Requires: b is not empty.
template <class D, class C>
absl::Status MultiplyTriangular(const OpContext& ctx, const TriangularSize& s, const C* a, C* b);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_FACTORIZE_H_
