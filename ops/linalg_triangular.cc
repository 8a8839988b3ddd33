// _linalg_trsm and _linalg_trmm solve with and multiply by triangular matrices. _linalg_potrf gives the Cholesky factor L
// of a matrix A = L L^T, or U of A = U^T U. _linalg_potri gives the inverse of A from such a factor. The other triangle of
// a triangular matrix is not read.
// The gradients are written in these operators, so that they have gradients, too.

#include "ops/kernel/index.h"
#include "ops/linalg.h"

namespace gluond::ops {
namespace {

struct TriangularParam : Param<TriangularParam> {
  bool transpose, rightside, lower;
  double alpha;
  static void Fields(Schema<TriangularParam>& s) {
    using P = TriangularParam;
    s.Field("transpose", &P::transpose).Default(false).Describe("A's matrices are transposed.");
    s.Field("rightside", &P::rightside).Default(false).Describe("A stands on the right of the other matrix.");
    s.Field("lower", &P::lower).Default(true).Describe("A's matrices are lower triangular; otherwise upper.");
    s.Field("alpha", &P::alpha).Default(1.0).Describe("Multiplies the result.");
  }
};

template <bool solve>
struct Triangular {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const auto& p = attrs.param<TriangularParam>();
    const Shape& b = in[1].shape;
    const int r = b.ndim();
    const TriangularSize s = {b.Size(0, r - 2), b[r - 2], b[r - 1], p.rightside, p.transpose, p.lower, p.alpha};
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(const C* const a, (As<D, C>(ctx, in[0])));
      ASSIGN_OR_RETURN(C* const x, (Copied<D, C>(ctx, in[1])));
      RETURN_IF_ERROR((solve ? SolveTriangular<D, C> : MultiplyTriangular<D, C>)(ctx, s, a, x));
      return ConvertTo<D, C>(ctx, VectorOf(ctx, x, b.Size()), req[0], out[0]);
    });
  }
};

absl::StatusOr<bool> TriangularShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<TriangularParam>();
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
  SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);
  const Shape &a = (*in)[0], &b = (*in)[1];
  RETURN_IF_ERROR(CheckSquare("input 0 'A'", a));
  if (!a.known() || !b.known()) return false;
  Shape of_a = b;
  const int r = b.ndim();
  if (r >= 2) of_a[r - 2] = of_a[r - 1] = b[p.rightside ? r - 1 : r - 2];
  if (r >= 2 && a == of_a) return true;
  return absl::InvalidArgumentError(absl::StrCat("inputs 'A' and 'B' have shapes ", a.ToString(), " and ", b.ToString(),
                                                 ", expected square matrices A that fit the ", p.rightside ? "columns" : "rows",
                                                 " of B's matrices, and equal axes before the last two"));
}

// The triangle of x that `lower` names, and zeros: what a gradient has of a triangular matrix.
struct TriangleParam : Param<TriangleParam> {
  bool lower;
  double diagonal;
  static void Fields(Schema<TriangleParam>& s) {
    s.Field("lower", &TriangleParam::lower).Default(true).Describe("The lower triangle; otherwise the upper one.");
    s.Field("diagonal", &TriangleParam::diagonal).Default(1.0).Describe("Multiplies the diagonal.");
  }
};

template <class C>
struct KeepTriangle {
  int64_t n;
  bool lower;
  C diagonal;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / n % n, column = i % n;
    const C v = x[i];
    y.Set(i, row == column ? diagonal * v : (row > column) == lower ? v : C(0));
  }
};
struct Triangle {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<TriangleParam>();
    if (req[0] == kNullOp) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) {
      return ForEach<D>(
          ctx, out[0].Size(),
          KeepTriangle<C>{out[0].shape.back(), p.lower, static_cast<C>(p.diagonal), In<C>(in[0]), Out<C>(out[0], req[0])});
    });
  }
};
NodeEntry TriangleOf(const NodeEntry& x, bool lower, double diagonal = 1) {
  return Call("_backward_linalg_triangle", {x},
              {{"lower", lower ? "True" : "False"}, {"diagonal", param_internal::FormatValue(diagonal)}});
}

NodeEntry CallTriangular(const char* op, const NodeEntry& a, const NodeEntry& b, bool transpose, bool rightside, bool lower,
                         double alpha = 1) {
  return Call(op, {a, b},
              {{"transpose", transpose ? "True" : "False"},
               {"rightside", rightside ? "True" : "False"},
               {"lower", lower ? "True" : "False"},
               {"alpha", param_internal::FormatValue(alpha)}});
}

// The gradient of A in a product A X with dL/d(A X) = g, times `scale`; or of X A, and with A transposed.
NodeEntry OfTriangle(const TriangularParam& p, const NodeEntry& g, const NodeEntry& x, double scale) {
  const bool left_is_g = p.rightside == p.transpose;
  const NodeEntry of_a = MatrixProduct(left_is_g ? g : x, p.rightside, left_is_g ? x : g, !p.rightside, scale);
  return TriangleOf(of_a, p.lower);
}

// X = alpha A^-1 B: with g = A^-T dX, dB = alpha g and dA = -g X^T.
Gradients SolveGradient(const NodePtr& node, const Gradients& dx) {
  const auto& p = node->param<TriangularParam>();
  const NodeEntry g = CallTriangular("_linalg_trsm", node->inputs[0], dx[0], !p.transpose, p.rightside, p.lower);
  return {OfTriangle(p, g, Output(node), -1), g * p.alpha};
}
// Y = alpha A B: dB = alpha A^T dY and dA = alpha dY B^T.
Gradients MultiplyGradient(const NodePtr& node, const Gradients& dy) {
  const auto& p = node->param<TriangularParam>();
  return {OfTriangle(p, dy[0], node->inputs[1], p.alpha),
          CallTriangular("_linalg_trmm", node->inputs[0], dy[0], !p.transpose, p.rightside, p.lower, p.alpha)};
}

struct CholeskyParam : Param<CholeskyParam> {
  bool lower;
  static void Fields(Schema<CholeskyParam>& s) {
    s.Field("lower", &CholeskyParam::lower)
        .Default(true)
        .Describe(
            "The factors are lower triangular, A = L L^T; otherwise upper, A = U^T U. The same triangle of an input is read.");
  }
};
bool IsLower(const NodeAttrs& attrs) { return attrs.param<CholeskyParam>().lower; }

// The place of element i of matrices of n columns in their transposes.
HOST_DEVICE int64_t Mirrored(int64_t i, int64_t n) {
  const int64_t row = i / n % n, column = i % n;
  return i + (column - row) * n + row - column;
}

// x's matrices as lower triangular ones: upper ones are transposed.
template <class C>
struct ReadFactor {
  int64_t n;
  In<C> x;
  C* l;
  HOST_DEVICE void operator()(int64_t i) const { l[i] = x[Mirrored(i, n)]; }
};
template <class D, class C>
absl::StatusOr<C*> LowerOf(const OpContext& ctx, bool lower, const TBlob& x) {
  if (lower) return Copied<D, C>(ctx, x);
  ASSIGN_OR_RETURN(C* const l, Space<C>(ctx, x.Size()));
  RETURN_IF_ERROR(ForEach<D>(ctx, x.Size(), ReadFactor<C>{x.shape.back(), In<C>(x), l}));
  return l;
}

// The triangle that is wanted of L, or of L^T, with zeros in the other one.
template <class C>
struct WriteFactor {
  int64_t n;
  bool lower;
  const C* l;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / n % n, column = i % n;
    y.Set(i, row != column && (row > column) != lower ? C(0) : l[lower ? i : Mirrored(i, n)]);
  }
};

struct Potrf {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const SquareSize s = SquareSizeOf(in[0].shape);
    ASSIGN_OR_RETURN(int64_t* const bad, Space<int64_t>(ctx, s.batch));
    const absl::Status computed = DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(C* const l, (LowerOf<D, C>(ctx, IsLower(attrs), in[0])));
      RETURN_IF_ERROR((FactorizeCholesky<D, C>(ctx, s, l, bad)));
      return ForEach<D>(ctx, out[0].Size(), WriteFactor<C>{s.n, IsLower(attrs), l, Out<C>(out[0], req[0])});
    });
    RETURN_IF_ERROR(computed);
    const TBlob found = VectorOf(ctx, bad, s.batch);
    ASSIGN_OR_RETURN(const int64_t first, FirstOutside<D>(ctx, found, 0, 1));
    if (first < 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int64_t row, IndexAt<D>(ctx, found, first));
    return absl::InvalidArgumentError(absl::StrCat("matrix ", first, " of input 0 'A', ", in[0].shape.ToString(),
                                                   ", is not positive definite: its first ", row,
                                                   " rows and columns are not; add to its diagonal"));
  }
};

struct Potri {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(const C* const l, (LowerOf<D, C>(ctx, IsLower(attrs), in[0])));
      ASSIGN_OR_RETURN(C* const inverse, Space<C>(ctx, out[0].Size()));
      RETURN_IF_ERROR((InvertCholesky<D, C>(ctx, SquareSizeOf(in[0].shape), l, inverse)));
      return ConvertTo<D, C>(ctx, VectorOf(ctx, inverse, out[0].Size()), req[0], out[0]);
    });
  }
};

NodeEntry LowerOf(bool lower, const NodeEntry& x) { return lower ? x : Transposed(x); }

// With P the lower triangle of L^T dL, its diagonal halved: dA = (S + S^T) / 2 of S = L^-T P L^-1, as A is symmetric.
Gradients PotrfGradient(const NodePtr& node, const Gradients& dy) {
  const bool lower = IsLower(node->attrs);
  const NodeEntry l = LowerOf(lower, Output(node)), dl = LowerOf(lower, dy[0]);
  const NodeEntry p = TriangleOf(MatrixProduct(l, true, dl, false), true, 0.5);
  const NodeEntry on_the_right = CallTriangular("_linalg_trsm", l, p, false, true, true);
  const NodeEntry s = CallTriangular("_linalg_trsm", l, on_the_right, true, false, true);
  return {(s + Transposed(s)) * 0.5};
}
// With Y = L^-T L^-1: dL = -Y (dY + dY^T) L^-T, of which the lower triangle counts.
Gradients PotriGradient(const NodePtr& node, const Gradients& dy) {
  const bool lower = IsLower(node->attrs);
  const NodeEntry product = MatrixProduct(Output(node), false, dy[0] + Transposed(dy[0]), false, -1);
  const NodeEntry dl = CallTriangular("_linalg_trsm", LowerOf(lower, node->inputs[0]), product, true, true, true);
  return {LowerOf(lower, TriangleOf(dl, true))};
}

#define TRIANGULAR(name, solve, text)                                                                                  \
  GLUOND_REGISTER_OP(_linalg_##name)                                                                                   \
      .describe(text)                                                                                                  \
      .add_alias("linalg_" #name)                                                                                      \
      .add_argument("A", "NDArray", "(batch..., n, n): triangular matrices, of which the other triangle is not read.") \
      .add_argument("B", "NDArray", "(batch..., n, m); with rightside, (batch..., m, n).")                             \
      .params<TriangularParam>()                                                                                       \
      .set_num_inputs(2)                                                                                               \
      .infer(TriangularShape, SameFloatType)                                                                           \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)                                                       \
      .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)                                              \
      .compute<Triangular<solve>>()

TRIANGULAR(trsm, true, "The matrices X with A X = alpha B, or, with rightside, X A = alpha B, A being triangular.")
    .set_attr<FGradient>("FGradient", SolveGradient);
TRIANGULAR(trmm, false, "alpha times the products A B, or, with rightside, B A, A being triangular.")
    .set_attr<FGradient>("FGradient", MultiplyGradient);

GLUOND_REGISTER_OP(_backward_linalg_triangle)
    .describe("A triangle of each matrix, with zeros in the other one.")
    .add_argument("A", "NDArray", "(batch..., n, n).")
    .params<TriangleParam>()
    .infer(SquareShape, SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", FirstGradient<>{"_backward_linalg_triangle"})
    .compute<Triangle>();

GLUOND_REGISTER_OP(_linalg_potrf)
    .describe(
        "The Cholesky factors of symmetric positive definite matrices: lower triangular L with A = L L^T. A matrix that is "
        "not positive definite is an error. The gradient is symmetric.")
    .add_alias("linalg_potrf")
    .add_argument("A", "NDArray", "(batch..., n, n), of which one triangle is read.")
    .params<CholeskyParam>()
    .infer(SquareShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", PotrfGradient)
    .compute<Potrf>();

GLUOND_REGISTER_OP(_linalg_potri)
    .describe("The inverses of matrices from their Cholesky factors: L^-T L^-1.")
    .add_alias("linalg_potri")
    .add_argument("A", "NDArray", "(batch..., n, n): L, or U, of which its triangle is read.")
    .params<CholeskyParam>()
    .infer(SquareShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", PotriGradient)
    .compute<Potri>();

}  // namespace
}  // namespace gluond::ops
