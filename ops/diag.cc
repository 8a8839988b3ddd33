// diag: a diagonal of a matrix, or of each matrix that two axes make; of a vector, the matrix that has it as diagonal.

#include "ops/kernel/fill.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct DiagParam : Param<DiagParam> {
  int64_t k;
  int axis1, axis2;
  static void Fields(Schema<DiagParam>& s) {
    constexpr int64_t kMax = int64_t{1} << 24;
    s.Field("k", &DiagParam::k).Default(int64_t{0}).Range(-kMax, kMax).Describe("Which diagonal; above the main one if positive.");
    s.Field("axis1", &DiagParam::axis1).Default(0).Describe("The axis of rows. Not used for a vector.");
    s.Field("axis2", &DiagParam::axis2).Default(1).Describe("The axis of columns. Not used for a vector.");
  }
};

// The copy between matrices and their diagonals, which are the last axis of `part`.
absl::StatusOr<StridedCopy> DiagCopyOf(const DiagParam& p, const Shape& matrix, const Shape& part, bool to_matrix) {
  const bool vector = matrix.ndim() == 2 && part.ndim() == 1;
  ASSIGN_OR_RETURN(const int rows, NormalizeAxis(vector ? 0 : p.axis1, matrix.ndim()));
  ASSIGN_OR_RETURN(const int columns, NormalizeAxis(vector ? 1 : p.axis2, matrix.ndim()));
  StridedCopy copy{.dims = part};
  Strides dense = {};
  DenseStrides(matrix, dense);
  int64_t* const strides = to_matrix ? copy.y_strides : copy.x_strides;
  int to = 0;
  for (int axis = 0; axis < matrix.ndim(); ++axis) {
    if (axis != rows && axis != columns) strides[to++] = dense[axis];
  }
  strides[to] = dense[rows] + dense[columns];
  (to_matrix ? copy.y_offset : copy.x_offset) = p.k > 0 ? p.k * dense[columns] : -p.k * dense[rows];
  DenseStrides(part, to_matrix ? copy.x_strides : copy.y_strides);
  return copy;
}

absl::StatusOr<bool> DiagShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const DiagParam& p = attrs.param<DiagParam>();
  const Shape& x = (*in)[0];
  if (!x.known()) return false;
  if (x.ndim() == 0) return absl::InvalidArgumentError("input 0 is a scalar; want rank 1 or more");
  if (x.ndim() == 1) {
    const int64_t n = x[0] + std::abs(p.k);
    ASSIGN_OR_RETURN(const Shape y, Shape::FromDims({n, n}));
    SHAPE_ASSIGN_CHECK(out, 0, y);
    return true;
  }
  ASSIGN_OR_RETURN(const int rows, NormalizeAxis(p.axis1, x.ndim()));
  ASSIGN_OR_RETURN(const int columns, NormalizeAxis(p.axis2, x.ndim()));
  if (rows == columns) return absl::InvalidArgumentError("axis1 and axis2 are one axis; want two");
  const int64_t n = std::min(x[rows] - std::max<int64_t>(0, -p.k), x[columns] - std::max<int64_t>(0, p.k));
  if (n <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0, ", x.ToString(), ", has no diagonal ", p.k, " of axes ", rows, " and ", columns));
  }
  Shape y = Shape::Scalar();
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (axis != rows && axis != columns) y.Append(x[axis]);
  }
  y.Append(n);
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

// Between a tensor x and diag(x). A vector goes into a matrix, others come out of one.
template <bool backward>
struct Diag {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs from, Requests req, Blobs to) {
    const Shape &x = backward ? to[0].shape : from[0].shape, &y = backward ? from[0].shape : to[0].shape;
    const bool to_matrix = (x.ndim() == 1) != backward;
    if (to_matrix) RETURN_IF_ERROR(Fill<D>(ctx, 0, req[0], to[0]));
    ASSIGN_OR_RETURN(const StridedCopy copy,
                     DiagCopyOf(attrs.param<DiagParam>(), x.ndim() == 1 ? y : x, x.ndim() == 1 ? x : y, to_matrix));
    return CopyStrided<D>(ctx, copy, from[0], req[0], to[0]);
  }
};

GLUOND_REGISTER_OP(diag)
    .describe("Diagonal k of the matrices that two axes make, as the last axis; of a vector, the matrix with it.")
    .add_argument("data", "NDArray", "Rank 1 or more.")
    .params<DiagParam>()
    .infer(DiagShape, ElemwiseType<1, 1>)
    .set_attr<FGradient>("FGradient", FirstGradient<0>{"_backward_diag"})
    .compute<Diag<false>>();

GLUOND_REGISTER_OP(_backward_diag)
    .describe("The gradient of diag.")
    .with(GradientByShape(GradientShape<DiagShape>, ElemwiseType<2, 1>, "data; only its shape is used."))
    .params<DiagParam>()
    .set_attr<FGradient>("FGradient", FirstGradient<>{"diag"})
    .compute<Diag<true>>();

}  // namespace
}  // namespace gluond::ops
