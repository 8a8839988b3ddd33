// _linalg_extractdiag and _linalg_makediag, a diagonal of each matrix and back; _linalg_sumlogdiag, the sum of the logarithms
// of the main diagonal: half of log det A from A's Cholesky factor.

#include "ops/kernel/fill.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/stage.h"
#include "ops/kernel/strided.h"
#include "ops/linalg.h"

namespace gluond::ops {
namespace {

struct OffsetParam : Param<OffsetParam> {
  int64_t offset;
  static void Fields(Schema<OffsetParam>& s) {
    constexpr int64_t kMax = int64_t{1} << 24;
    s.Field("offset", &OffsetParam::offset)
        .Default(int64_t{0})
        .Range(-kMax, kMax)
        .Describe("Which diagonal; above the main one if positive.");
  }
};

// The copy between matrices and their diagonals.
StridedCopy LinalgDiagCopyOf(int64_t offset, const Shape& matrix, const Shape& diagonal, bool to_matrix) {
  StridedCopy copy{.dims = diagonal};
  Strides dense;
  DenseStrides(matrix, dense);
  int64_t* const strides = to_matrix ? copy.y_strides : copy.x_strides;
  const int last = diagonal.ndim() - 1;
  std::copy_n(dense, last, strides);
  strides[last] = dense[last] + dense[last + 1];
  (to_matrix ? copy.y_offset : copy.x_offset) = offset > 0 ? offset : -offset * dense[last];
  DenseStrides(diagonal, to_matrix ? copy.x_strides : copy.y_strides);
  return copy;
}

template <bool make>
struct MatrixDiag {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Shape &matrix = (make ? out : in)[0].shape, &diagonal = (make ? in : out)[0].shape;
    if (make) RETURN_IF_ERROR(Fill<D>(ctx, 0, req[0], out[0]));
    return CopyStrided<D>(ctx, LinalgDiagCopyOf(attrs.param<OffsetParam>().offset, matrix, diagonal, make), in[0], req[0], out[0]);
  }
};

absl::StatusOr<bool> ExtractShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  RETURN_IF_ERROR(CheckSquare("input 0 'A'", x));
  if (!x.known()) return false;
  const int64_t offset = attrs.param<OffsetParam>().offset, n = x.back() - std::abs(offset);
  if (n < 0 || (n == 0 && offset != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 'A', ", x.ToString(), ", has no diagonal ", offset,
                                                   ", expected less than ", x.back(), " on either side"));
  }
  Shape y(x.begin(), x.end() - 1);
  y[y.ndim() - 1] = n;
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

absl::StatusOr<bool> MakeShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  RETURN_IF_ERROR(CheckRank(x, 1));
  if (!x.known()) return false;
  const int64_t n = x.back() + std::abs(attrs.param<OffsetParam>().offset);
  std::vector<int64_t> dims(x.begin(), x.end());
  dims.back() = n;
  dims.push_back(n);
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(dims));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

GLUOND_REGISTER_OP(_linalg_extractdiag)
    .describe("A diagonal of each matrix, as the last axis.")
    .add_alias("linalg_extractdiag")
    .add_argument("A", "NDArray", "(batch..., n, n).")
    .params<OffsetParam>()
    .infer(ExtractShape, SameFloatType)
    .set_attr<FGradient>("FGradient", FirstGradient<>{"_linalg_makediag"})
    .compute<MatrixDiag<false>>();

GLUOND_REGISTER_OP(_linalg_makediag)
    .describe("Matrices of zeros with the last axis as a diagonal.")
    .add_alias("linalg_makediag")
    .add_argument("A", "NDArray", "(batch..., n).")
    .params<OffsetParam>()
    .infer(MakeShape, SameFloatType)
    .set_attr<FGradient>("FGradient", FirstGradient<>{"_linalg_extractdiag"})
    .compute<MatrixDiag<true>>();

template <class C>
struct SumLogs {
  int64_t n;
  In<C> a;
  Out<C> y;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t b) const {
    const C sum = g.Sum(n, [&](int64_t i) { return math::Log(a[(b * n + i) * n + i]); });
    if (g.first()) y.Set(b, sum);
  }
};
// dA has dy / A on the diagonal.
template <class C>
struct DivideByDiagonal {
  int64_t n;
  In<C> dy, a;
  Out<C> da;
  HOST_DEVICE void operator()(int64_t i) const { da.Set(i, i / n % n == i % n ? dy[i / n / n] / a[i] : C(0)); }
};

struct SumLogDiag {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      const int64_t n = in[0].shape.back();
      return ForEachGroup<D>(ctx, out[0].Size(), 8 * n, SumLogs<C>{n, In<C>(in[0]), Out<C>(out[0], req[0])});
    });
  }
};
struct BackwardSumLogDiag {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      return ForEach<D>(ctx, out[0].Size(),
                        DivideByDiagonal<C>{out[0].shape.back(), In<C>(in[0]), In<C>(in[1]), Out<C>(out[0], req[0])});
    });
  }
};

GLUOND_REGISTER_OP(_linalg_sumlogdiag)
    .describe("The sum of the logarithms of each matrix' diagonal: (batch...), and (1) for one matrix.")
    .add_alias("linalg_sumlogdiag")
    .add_argument("A", "NDArray", "(batch..., n, n).")
    .infer(NumberOfMatrixShape, SameFloatType)
    .set_attr<FGradient>("FGradient", FirstGradient<0>{"_backward_linalg_sumlogdiag"})
    .compute<SumLogDiag>();

// With R = f(1, A): dg = the sum of h R, and dA = -h f(g, A) R.
GLUOND_REGISTER_OP(_backward_linalg_sumlogdiag)
    .describe("The gradient of _linalg_sumlogdiag's input: dy / A on the diagonal, zeros elsewhere.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("A", "NDArray", "(batch..., n, n).")
    .set_num_inputs(2)
    .infer(GradientShape<NumberOfMatrixShape>, SameFloatType)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& h) -> Gradients {
                           const NodeEntry &g = node->inputs[0], &a = node->inputs[1];
                           const NodeEntry r = Call("_backward_linalg_sumlogdiag", {Call("ones_like", {g}), a});
                           return {MatrixSum(h[0] * r), -(h[0] * Output(node) * r)};
                         })
    .compute<BackwardSumLogDiag>();

}  // namespace
}  // namespace gluond::ops
