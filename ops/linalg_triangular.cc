// _linalg_trsm and _linalg_trmm, solving with and multiplying by triangular matrices; _linalg_potrf, the Cholesky factor L
// of a matrix A = L L^T, and _linalg_potri, the inverse of A from L. The other triangle of a triangular matrix is not read.
// The gradients are written in these operators, so that they have gradients, too.

#include "ops/linalg.h"
#include "ops/kernel/index.h"
#include "ops/kernel/math.h"
#include "ops/kernel/stage.h"

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

// Rows and columns of b, and how a is read: the product with a on the right is that of the transposed on the left. A line
// is a column of b, or a row where a stands on the right; every line is computed for itself.
struct TriangularSize {
  int64_t batch, rows, columns;
  bool right, flipped, lower;  // `flipped`: a is read transposed. `lower`: whether it is then.
  double alpha;

  TriangularSize(const TriangularParam& p, const Shape& b)
      : batch(b.Size(0, b.ndim() - 2)), rows(b[b.ndim() - 2]), columns(b.back()), right(p.rightside),
        flipped(p.transpose != p.rightside), lower(p.lower != flipped), alpha(p.alpha) {}
  HOST_DEVICE int64_t n() const { return right ? columns : rows; }
  HOST_DEVICE int64_t lines() const { return batch * (right ? rows : columns); }
  HOST_DEVICE int64_t stride() const { return right ? 1 : columns; }
  // Where a line begins in b, and its matrix in a.
  HOST_DEVICE int64_t Line(int64_t line) const {
    return right ? line * columns : line / columns * rows * columns + line % columns;
  }
  HOST_DEVICE int64_t Matrix(int64_t line) const { return line / (right ? rows : columns) * n() * n(); }
  HOST_DEVICE int64_t At(int64_t i, int64_t k) const { return flipped ? k * n() + i : i * n() + k; }
};

// A line x with a x = alpha b, in temporary space, as each element needs those before.
template <class C>
struct SolveLine {
  TriangularSize s;
  In<C> a, b;
  C* x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t line) const {
    const int64_t first = s.Line(line), matrix = s.Matrix(line), n = s.n(), stride = s.stride();
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = s.lower ? step : n - 1 - step;
      C sum = static_cast<C>(s.alpha) * b[first + i * stride];
      const int64_t begin = s.lower ? 0 : i + 1, end = s.lower ? i : n;
      for (int64_t k = begin; k < end; ++k) sum -= a[matrix + s.At(i, k)] * x[first + k * stride];
      x[first + i * stride] = sum / a[matrix + s.At(i, i)];
      y.Set(first + i * stride, x[first + i * stride]);
    }
  }
};

// A line y = alpha a x.
template <class C>
struct MultiplyLine {
  TriangularSize s;
  In<C> a, x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t line) const {
    const int64_t first = s.Line(line), matrix = s.Matrix(line), n = s.n(), stride = s.stride();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t begin = s.lower ? 0 : i, end = s.lower ? i + 1 : n;
      C sum = 0;
      for (int64_t k = begin; k < end; ++k) sum += a[matrix + s.At(i, k)] * x[first + k * stride];
      y.Set(first + i * stride, static_cast<C>(s.alpha) * sum);
    }
  }
};

// Lines are n^2 operations each.
int64_t LineGrain(int64_t n) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n * n)); }

template <bool solve>
struct Triangular {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const TriangularSize s(attrs.param<TriangularParam>(), in[1].shape);
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      const In<C> a(in[0]), b(in[1]);
      const Out<C> y(out[0], req[0]);
      if constexpr (solve) {
        ASSIGN_OR_RETURN(C* const x, Space<C>(ctx, out[0].Size()));
        return ForEach<D>(ctx, s.lines(), SolveLine<C>{s, a, b, x, y}, LineGrain(s.n()));
      } else {
        return ForEach<D>(ctx, s.lines(), MultiplyLine<C>{s, a, b, y}, LineGrain(s.n()));
      }
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
                                                 ", expected square matrices A that fit the ",
                                                 p.rightside ? "columns" : "rows",
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
      return ForEach<D>(ctx, out[0].Size(), KeepTriangle<C>{out[0].shape.back(), p.lower, static_cast<C>(p.diagonal),
                                                            In<C>(in[0]), Out<C>(out[0], req[0])});
    });
  }
};
NodeEntry TriangleOf(const NodeEntry& x, bool lower, double diagonal = 1) {
  return Call("_backward_linalg_triangle", {x}, {{"lower", lower ? "True" : "False"},
                                                 {"diagonal", param_internal::FormatValue(diagonal)}});
}

NodeEntry CallTriangular(const char* op, const NodeEntry& a, const NodeEntry& b, bool transpose, bool rightside, bool lower,
                      double alpha = 1) {
  return Call(op, {a, b}, {{"transpose", transpose ? "True" : "False"},
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

// The factor of one matrix, row by row, of A's lower triangle. `bad`: the row, counted from 1, that has none, or 0.
template <class C>
struct Factorize {
  int64_t n;
  In<C> a;
  C* l;
  int64_t* bad;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t b) const {
    const int64_t first = b * n * n;
    C* const m = l + first;
    bad[b] = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k <= i; ++k) {
        C sum = a[first + i * n + k];
        for (int64_t j = 0; j < k; ++j) sum -= m[i * n + j] * m[k * n + j];
        if (k < i) {
          m[i * n + k] = sum / m[k * n + k];
        } else {
          if (!(sum > 0) && bad[b] == 0) bad[b] = i + 1;
          m[i * n + i] = math::Sqrt(sum);
        }
      }
    }
    for (int64_t i = 0; i < n * n; ++i) y.Set(first + i, i / n >= i % n ? m[i] : C(0));
  }
};

struct Potrf {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const SquareSize s(in[0].shape);
    ASSIGN_OR_RETURN(int64_t* const bad, Space<int64_t>(ctx, s.batch));
    const absl::Status computed = DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(C* const l, Space<C>(ctx, out[0].Size()));
      return ForEach<D>(ctx, s.batch, Factorize<C>{s.n, In<C>(in[0]), l, bad, Out<C>(out[0], req[0])}, LineGrain(s.n));
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

// A column of L^-1.
template <class C>
struct InvertColumn {
  int64_t n;
  In<C> l;
  C* inverse;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t first = i / n * n * n, column = i % n;
    for (int64_t row = 0; row < n; ++row) {
      C sum = row == column ? C(1) : C(0);
      for (int64_t k = column; k < row; ++k) sum -= l[first + row * n + k] * inverse[first + k * n + column];
      inverse[first + row * n + column] = row < column ? C(0) : sum / l[first + row * n + row];
    }
  }
};
// A row of L^-T L^-1.
template <class C>
struct SquareRow {
  int64_t n;
  const C* inverse;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t first = i / n * n * n, row = i % n;
    for (int64_t column = 0; column < n; ++column) {
      C sum = 0;
      for (int64_t k = row > column ? row : column; k < n; ++k) {
        sum += inverse[first + k * n + row] * inverse[first + k * n + column];
      }
      y.Set(first + row * n + column, sum);
    }
  }
};

struct Potri {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    const SquareSize s(in[0].shape);
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(C* const inverse, Space<C>(ctx, out[0].Size()));
      const int64_t lines = s.batch * s.n, grain = LineGrain(s.n);
      RETURN_IF_ERROR(ForEach<D>(ctx, lines, InvertColumn<C>{s.n, In<C>(in[0]), inverse}, grain));
      return ForEach<D>(ctx, lines, SquareRow<C>{s.n, inverse, Out<C>(out[0], req[0])}, grain);
    });
  }
};

// With P the lower triangle of L^T dL, its diagonal halved: dA = (S + S^T) / 2 of S = L^-T P L^-1, as A is symmetric.
Gradients PotrfGradient(const NodePtr& node, const Gradients& dl) {
  const NodeEntry l = Output(node), p = TriangleOf(MatrixProduct(l, true, dl[0], false), true, 0.5);
  const NodeEntry on_the_right = CallTriangular("_linalg_trsm", l, p, false, true, true);
  const NodeEntry s = CallTriangular("_linalg_trsm", l, on_the_right, true, false, true);
  return {(s + Transposed(s)) * 0.5};
}
// With Y = L^-T L^-1: dL = -Y (dY + dY^T) L^-T, of which the lower triangle counts.
Gradients PotriGradient(const NodePtr& node, const Gradients& dy) {
  const NodeEntry product = MatrixProduct(Output(node), false, dy[0] + Transposed(dy[0]), false, -1);
  return {TriangleOf(CallTriangular("_linalg_trsm", node->inputs[0], product, true, true, true), true)};
}

#define TRIANGULAR(name, solve, text)                                                                             \
  GLUOND_REGISTER_OP(_linalg_##name)                                                                              \
      .describe(text)                                                                                             \
      .add_alias("linalg_" #name)                                                                                 \
      .add_argument("A", "NDArray", "(batch..., n, n): triangular matrices, of which the other triangle is not read.") \
      .add_argument("B", "NDArray", "(batch..., n, m); with rightside, (batch..., m, n).")                        \
      .params<TriangularParam>()                                                                                  \
      .set_num_inputs(2)                                                                                          \
      .infer(TriangularShape, SameFloatType)                                                                      \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)                                                  \
      .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)                                         \
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
    .describe("The Cholesky factors of symmetric positive definite matrices: lower triangular L with A = L L^T. A matrix that is "
              "not positive definite is an error. The gradient is symmetric.")
    .add_alias("linalg_potrf")
    .add_argument("A", "NDArray", "(batch..., n, n), of which the lower triangle is read.")
    .infer(SquareShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", PotrfGradient)
    .compute<Potrf>();

GLUOND_REGISTER_OP(_linalg_potri)
    .describe("The inverses of matrices from their Cholesky factors: L^-T L^-1.")
    .add_alias("linalg_potri")
    .add_argument("A", "NDArray", "(batch..., n, n): L, of which the lower triangle is read.")
    .infer(SquareShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", PotriGradient)
    .compute<Potri>();

}  // namespace
}  // namespace gluond::ops
