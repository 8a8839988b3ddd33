// _linalg_det, _linalg_slogdet and _linalg_inverse, by the factorization P A = L U with the largest pivot of each column.
// Their gradients are made of the inverse: dA = dy det A^-T, dlog|det| A^-T and -A^-T dY A^-T. A singular matrix has no
// inverse, which is an error; the gradient of its determinant is 0.

#include <limits>

#include "ops/linalg.h"
#include "ops/kernel/index.h"
#include "ops/kernel/math.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {
namespace {

// The factors of all matrices: L without its diagonal of ones, and U; `pivot`: the row that each row was exchanged with.
template <class C>
struct Factors {
  int64_t batch, n;
  C* lu;
  int64_t *pivot, *singular;  // `singular`: 1 or 0, by matrix.
};

template <class C>
struct FactorizeLu {
  Factors<C> f;
  In<C> a;
  HOST_DEVICE void operator()(int64_t b) const {
    const int64_t n = f.n, first = b * n * n;
    C* const m = f.lu + first;
    for (int64_t i = 0; i < n * n; ++i) m[i] = a[first + i];
    f.singular[b] = 0;
    for (int64_t k = 0; k < n; ++k) {
      int64_t best = k;
      for (int64_t i = k + 1; i < n; ++i) best = math::Abs(m[i * n + k]) > math::Abs(m[best * n + k]) ? i : best;
      f.pivot[b * n + k] = best;
      if (m[best * n + k] == 0) {
        f.singular[b] = 1;
        continue;
      }
      for (int64_t j = 0; j < n && best != k; ++j) {
        const C v = m[k * n + j];
        m[k * n + j] = m[best * n + j];
        m[best * n + j] = v;
      }
      for (int64_t i = k + 1; i < n; ++i) {
        const C factor = m[i * n + k] /= m[k * n + k];
        for (int64_t j = k + 1; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
      }
    }
  }
};

template <class D, class C>
absl::StatusOr<Factors<C>> Factorized(const OpContext& ctx, const TBlob& a) {
  const SquareSize s(a.shape);
  Factors<C> f{s.batch, s.n, nullptr, nullptr, nullptr};
  ASSIGN_OR_RETURN(f.lu, Space<C>(ctx, s.batch * s.matrix()));
  ASSIGN_OR_RETURN(f.pivot, Space<int64_t>(ctx, s.batch * s.n));
  ASSIGN_OR_RETURN(f.singular, Space<int64_t>(ctx, s.batch));
  const int64_t grain = std::max<int64_t>(1, kGrain / (s.matrix() * s.n + 1));
  RETURN_IF_ERROR(ForEach<D>(ctx, s.batch, FactorizeLu<C>{f, In<C>(a)}, grain));
  return f;
}

// The determinant of one matrix, or its sign and logarithm.
template <class C>
struct WriteDeterminant {
  Factors<C> f;
  bool log;
  OpReqType sign_req, y_req;
  Out<C> sign, y;  // `sign` is of slogdet only.
  HOST_DEVICE void operator()(int64_t b) const {
    C product = 1, sum = 0, negative = 1;
    for (int64_t k = 0; k < f.n; ++k) {
      const C u = f.lu[(b * f.n + k) * f.n + k], v = f.pivot[b * f.n + k] == k ? u : -u;
      product *= v;
      negative = v < 0 ? -negative : negative;
      sum += math::Log(math::Abs(v));
    }
    if (f.singular[b] != 0) {
      product = negative = 0;
      sum = -std::numeric_limits<C>::infinity();
    }
    if (log && sign_req != kNullOp) sign.Set(b, sum != sum ? sum : negative);
    if (y_req != kNullOp) y.Set(b, log ? sum : product);
  }
};

template <bool log>
struct Determinant {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (out[0].Size() == 0) return absl::OkStatus();
    const size_t y = log ? 1 : 0;
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(const Factors<C> f, (Factorized<D, C>(ctx, in[0])));
      return ForEach<D>(ctx, f.batch, WriteDeterminant<C>{f, log, req[0], req[y], Out<C>(out[0], req[0]),
                                                          Out<C>(out[y], req[y])});
    });
  }
};

// Column `column` of the inverse, in temporary space: P applied to a unit vector, then L and U solved for.
template <class C>
struct InverseColumn {
  Factors<C> f;
  C* inverse;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t n = f.n, b = i / n, column = i % n;
    const C* const m = f.lu + b * n * n;
    C* const x = inverse + b * n * n + column * n;  // A row here, so that it lies together: the inverse is transposed.
    for (int64_t k = 0; k < n; ++k) x[k] = k == column ? C(1) : C(0);
    for (int64_t k = 0; k < n; ++k) {
      const int64_t other = f.pivot[b * n + k];
      const C v = x[k];
      x[k] = x[other];
      x[other] = v;
    }
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t k = 0; k < r; ++k) x[r] -= m[r * n + k] * x[k];
    }
    for (int64_t r = n - 1; r >= 0; --r) {
      for (int64_t k = r + 1; k < n; ++k) x[r] -= m[r * n + k] * x[k];
      x[r] /= m[r * n + r];
    }
  }
};

// The transposed inverses, in temporary space.
template <class D, class C>
absl::StatusOr<const C*> TransposedInverses(const OpContext& ctx, const Factors<C>& f) {
  ASSIGN_OR_RETURN(C* const inverse, Space<C>(ctx, f.batch * f.n * f.n));
  const int64_t grain = std::max<int64_t>(1, kGrain / (f.n * f.n + 1));
  RETURN_IF_ERROR(ForEach<D>(ctx, f.batch * f.n, InverseColumn<C>{f, inverse}, grain));
  return inverse;
}

template <class C>
struct WriteTransposed {
  int64_t n;
  const C* x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, x[i / n / n * n * n + i % n * n + i / n % n]); }
};
template <class C>
struct WriteScaled {
  int64_t matrix;
  const int64_t* singular;
  const C* x;
  In<C> scale;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t b = i / matrix;
    y.Set(i, singular[b] != 0 ? C(0) : scale[b] * x[i]);
  }
};

struct Inverse {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(const Factors<C> f, (Factorized<D, C>(ctx, in[0])));
      ASSIGN_OR_RETURN(const int64_t bad, FirstOutside<D>(ctx, VectorOf(ctx, f.singular, f.batch), 0, 1));
      if (bad >= 0) {
        return absl::InvalidArgumentError(absl::StrCat("matrix ", bad, " of input 0 'A', ", in[0].shape.ToString(),
                                                       ", is singular, expected matrices that have an inverse"));
      }
      ASSIGN_OR_RETURN(const C* const inverse, (TransposedInverses<D, C>(ctx, f)));
      return ForEach<D>(ctx, out[0].Size(), WriteTransposed<C>{f.n, inverse, Out<C>(out[0], req[0])});
    });
  }
};

// Inputs: a number for each matrix, and A. Output: the number times A^-T, or zeros where A is singular.
struct BackwardDet {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(const Factors<C> f, (Factorized<D, C>(ctx, in[1])));
      ASSIGN_OR_RETURN(const C* const inverse, (TransposedInverses<D, C>(ctx, f)));
      return ForEach<D>(ctx, out[0].Size(),
                        WriteScaled<C>{f.n * f.n, f.singular, inverse, In<C>(in[0]), Out<C>(out[0], req[0])});
    });
  }
};

#define OF_SQUARE(name, text)                                                  \
  GLUOND_REGISTER_OP(name)                                                     \
      .describe(text)                                                          \
      .add_argument("A", "NDArray", "(batch..., n, n).")                       \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)               \
      .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)

OF_SQUARE(_linalg_det, "The determinant of each matrix: (batch...), and (1) for one matrix.")
    .add_alias("linalg_det")
    .infer(NumberOfMatrixShape, SameFloatType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("_backward_linalg_det", {dy[0] * Output(node), node->inputs[0]})};
    })
    .compute<Determinant<false>>();

OF_SQUARE(_linalg_slogdet, "The sign of each matrix' determinant, and the logarithm of its absolute value.")
    .add_alias("linalg_slogdet")
    .set_num_outputs(2)
    .set_attr<FListOutputNames>("FListOutputNames", Names({"sign", "logabsdet"}))
    .infer(NumberOfMatrixShape, SameFloatType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("_backward_linalg_det", {dy[1], node->inputs[0]})};
    })
    .compute<Determinant<true>>();

OF_SQUARE(_linalg_inverse, "The inverse of each matrix. A singular matrix is an error.")
    .add_alias("linalg_inverse")
    .infer(SquareShape, SameFloatType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      const NodeEntry y = Output(node);
      return {MatrixProduct(MatrixProduct(y, true, dy[0], false), false, y, true, -1)};
    })
    .compute<Inverse>();

// With Z = g A^-T and R = A^-T: dg = the sum of h R, and dA = -Z h^T R.
GLUOND_REGISTER_OP(_backward_linalg_det)
    .describe("The gradient of a determinant: a number for each matrix, times the transposed inverse.")
    .add_argument("scale", "NDArray", "The number: (batch...), or (1).")
    .add_argument("A", "NDArray", "(batch..., n, n).")
    .set_num_inputs(2)
    .infer(GradientShape<NumberOfMatrixShape>, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& h) -> Gradients {
      const NodeEntry &g = node->inputs[0], &a = node->inputs[1];
      const NodeEntry r = Call("_backward_linalg_det", {Call("ones_like", {g}), a});
      return {MatrixSum(h[0] * r), MatrixProduct(MatrixProduct(Output(node), false, h[0], true), false, r, false, -1)};
    })
    .compute<BackwardDet>();

}  // namespace
}  // namespace gluond::ops
