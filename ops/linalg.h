// Square matrices in the last two axes of a tensor, as the operators _linalg_... take them.

#ifndef OPS_LINALG_H_
#define OPS_LINALG_H_

#include "ops/kernel/factorize.h"
#include "ops/kernel/stage.h"
#include "ops/operator.h"

namespace gluond::ops {

// INVALID_ARGUMENT: the shape is known to be none of square matrices. `what` is for the message: "input 0 'A'".
inline absl::Status CheckSquare(absl::string_view what, const Shape& x) {
  const int r = x.ndim();
  if (r < 0 || (r >= 2 && (x[r - 1] == x[r - 2] || x[r - 1] < 0 || x[r - 2] < 0))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has shape ", x.ToString(), ", expected square matrices in the last two axes"));
}

// FInferShape of y = f(A, ...): all have one shape, that of square matrices.
inline absl::StatusOr<bool> SquareShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ASSIGN_OR_RETURN(const bool known, SameShape(attrs, in, out));
  RETURN_IF_ERROR(CheckSquare("input 0 'A'", (*in)[0]));
  return known;
}

// FInferShape of a number for each matrix: every output has A's shape without the last two axes, and (1) for one matrix.
inline absl::StatusOr<bool> NumberOfMatrixShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  RETURN_IF_ERROR(CheckSquare("input 0 'A'", x));
  if (!x.known()) return false;
  const Shape y = x.ndim() == 2 ? Shape({1}) : Shape(x.begin(), x.end() - 2);
  for (size_t i = 0; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, y);
  return true;
}

// A tensor's matrices.
inline SquareSize SquareSizeOf(const Shape& x) { return {x.Size(0, x.ndim() - 2), x.back()}; }
// The same, in temporary space, to be factorized there.
template <class D, class C>
absl::StatusOr<C*> Copied(const OpContext& ctx, const TBlob& x) {
  ASSIGN_OR_RETURN(C* const copy, Space<C>(ctx, x.Size()));
  RETURN_IF_ERROR((ConvertTo<D, C>(ctx, x, kWriteTo, VectorOf(ctx, copy, x.Size()))));
  return copy;
}

// The product of the matrices a and b, each transposed or not, times alpha, as a gradient is written.
inline NodeEntry MatrixProduct(const NodeEntry& a, bool transpose_a, const NodeEntry& b, bool transpose_b, double alpha = 1) {
  return Call("_linalg_gemm2", {a, b},
              {{"transpose_a", transpose_a ? "True" : "False"},
               {"transpose_b", transpose_b ? "True" : "False"},
               {"alpha", param_internal::FormatValue(alpha)}});
}
inline NodeEntry Transposed(const NodeEntry& a) { return Call("SwapAxis", {a}, {{"dim1", "-2"}, {"dim2", "-1"}}); }
// The sum of each matrix.
inline NodeEntry MatrixSum(const NodeEntry& a) { return Call("sum", {a}, {{"axis", "(-2, -1)"}}); }

}  // namespace gluond::ops

#endif  // OPS_LINALG_H_
