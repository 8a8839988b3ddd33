// _linalg_det, _linalg_slogdet and _linalg_inverse, by the factorization P A^T = L U with the largest pivot of each column.
// Their gradients: det has dA = dy C, with the cofactors C = det A^-T; slogdet dy A^-T; inverse -A^-T dY A^-T. A singular
// matrix has cofactors, too. It has no inverse, which is an error, and its logarithm the gradient 0.

#include <limits>

#include "ops/kernel/index.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include "ops/linalg.h"

namespace gluond::ops {
namespace {

// The factors of all matrices, transposed, as FactorizeLu makes them.
template <class C>
struct Factors {
  SquareSize size;
  C* lu;
  int32_t* pivot;

  // Element (i, j) of matrix b: of U for i <= j, of L else.
  HOST_DEVICE C At(int64_t b, int64_t i, int64_t j) const { return lu[b * size.matrix() + j * size.n + i]; }
  HOST_DEVICE bool singular(int64_t b) const {
    bool found = false;
    for (int64_t k = 0; k < size.n; ++k) found = found || At(b, k, k) == 0;
    return found;
  }
  HOST_DEVICE C sign(int64_t b) const {  // The determinant of P.
    C negative = 1;
    for (int64_t k = 0; k < size.n; ++k) negative = pivot[b * size.n + k] == k + 1 ? negative : -negative;
    return negative;
  }
};

template <class D, class C>
absl::StatusOr<Factors<C>> Factorized(const OpContext& ctx, const TBlob& a) {
  Factors<C> f = {SquareSizeOf(a.shape), nullptr, nullptr};
  ASSIGN_OR_RETURN(f.lu, (Copied<D, C>(ctx, a)));
  ASSIGN_OR_RETURN(f.pivot, Space<int32_t>(ctx, f.size.batch * f.size.n));
  RETURN_IF_ERROR((FactorizeLu<D, C>(ctx, f.size, f.lu, f.pivot)));
  return f;
}
// Row-major inverses, in temporary space.
template <class D, class C>
absl::StatusOr<const C*> Inverses(const OpContext& ctx, const Factors<C>& f) {
  ASSIGN_OR_RETURN(C* const inverse, Space<C>(ctx, f.size.batch * f.size.matrix()));
  RETURN_IF_ERROR((InvertLu<D, C>(ctx, f.size, f.lu, f.pivot, inverse)));
  return inverse;
}

// The determinant of one matrix, or its sign and logarithm.
template <class C>
struct WriteDeterminant {
  Factors<C> f;
  bool log;
  OpReqType sign_req, y_req;
  Out<C> sign, y;  // `sign` is of slogdet only.
  HOST_DEVICE void operator()(int64_t b) const {
    C product = f.sign(b), sum = 0, negative = product;
    for (int64_t k = 0; k < f.size.n; ++k) {
      const C u = f.At(b, k, k);
      product *= u;
      negative = u < 0 ? -negative : negative;
      sum += math::Log(math::Abs(u));
    }
    if (f.singular(b)) {
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
      return ForEach<D>(ctx, f.size.batch,
                        WriteDeterminant<C>{f, log, req[0], req[y], Out<C>(out[0], req[0]), Out<C>(out[y], req[y])}, kGrain / 64);
    });
  }
};

template <class C>
struct FindSingular {
  Factors<C> f;
  int64_t* singular;
  HOST_DEVICE void operator()(int64_t b) const { singular[b] = f.singular(b) ? 1 : 0; }
};

struct Inverse {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(const Factors<C> f, (Factorized<D, C>(ctx, in[0])));
      ASSIGN_OR_RETURN(int64_t* const singular, Space<int64_t>(ctx, f.size.batch));
      RETURN_IF_ERROR(ForEach<D>(ctx, f.size.batch, FindSingular<C>{f, singular}, kGrain / 64));
      ASSIGN_OR_RETURN(const int64_t bad, FirstOutside<D>(ctx, VectorOf(ctx, singular, f.size.batch), 0, 1));
      if (bad >= 0) {
        return absl::InvalidArgumentError(absl::StrCat("matrix ", bad, " of input 0 'A', ", in[0].shape.ToString(),
                                                       ", is singular, expected matrices that have an inverse"));
      }
      ASSIGN_OR_RETURN(const C* const inverse, (Inverses<D, C>(ctx, f)));
      return ConvertTo<D, C>(ctx, VectorOf(ctx, inverse, out[0].Size()), req[0], out[0]);
    });
  }
};

// A gradient's factors of one matrix: of A^-T, or of x w^T where A is singular. With T U = E, T eliminates the row that U's
// first zero leaves without a pivot. Then x is the vector with U x = 0, and w^T = t^T L^-1 P, where t^T is the last row of T.
// Two rows without a pivot have the factor 0.
template <class C>
struct GradientFactors {
  Factors<C> f;
  bool log;
  C *of_inverse, *of_vectors, *x, *w, *carried;  // `carried`: the row that has no pivot yet.

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t b) const {
    int64_t zero = 0;
    C product = f.sign(b);
    for (; zero < f.size.n && f.At(b, zero, zero) != 0; ++zero) product *= f.At(b, zero, zero);
    const bool singular = zero < f.size.n;
    const C cofactor = singular && !log ? Vectors(g, b, zero, product) : C(0);
    if (!g.first()) return;
    of_inverse[b] = singular ? C(0) : log ? C(1) : product;
    of_vectors[b] = cofactor;
  }

 private:
  // Makes x and w. `product`: that of the pivots before `zero`. Returns their factor.
  template <class Group>
  HOST_DEVICE C Vectors(Group g, int64_t b, int64_t zero, C product) const {
    const int64_t n = f.size.n;
    C *const null = x + b * n, *const left = w + b * n, *const row = carried + b * n;
    const auto at = [&](int64_t i, int64_t j) { return f.At(b, i, j); };
    const auto meet = [&] { g.ForEach(0, [](int64_t) {}); };
    g.ForEach(n, [&](int64_t j) {
      row[j] = j > zero ? at(zero, j) : C(0);
      left[j] = j == zero ? C(1) : C(0);
      null[j] = j < zero ? -at(j, zero) : j == zero ? C(1) : C(0);
    });
    for (int64_t c = zero + 1; c < n; ++c) {
      const C without = row[c], own = at(c, c);
      const bool swap = math::Abs(own) > math::Abs(without);
      const C pivot = swap ? own : without, factor = pivot == 0 ? C(0) : (swap ? without : own) / pivot;
      meet();
      product *= swap ? -pivot : pivot;  // U's row comes to stand before the carried one.
      g.ForEach(n - c, [&](int64_t k) {
        const C old = row[c + k], u = at(c, c + k);
        row[c + k] = swap ? old - factor * u : u - factor * old;
      });
      g.ForEach(c + 1, [&](int64_t k) {
        const C unit = k == c ? C(1) : C(0);
        left[k] = swap ? left[k] - factor * unit : unit - factor * left[k];
      });
    }
    for (int64_t k = zero - 1; k >= 0; --k) {  // U x = 0.
      const C v = null[k] / at(k, k);
      meet();
      g.ForEach(k + 1, [&](int64_t i) { null[i] = i == k ? v : null[i] - at(i, k) * v; });
    }
    for (int64_t k = n - 1; k >= 0; --k) {  // w^T L = t^T.
      const C v = left[k];
      g.ForEach(k, [&](int64_t j) { left[j] -= at(k, j) * v; });
    }
    if (g.first()) {
      for (int64_t k = n - 1; k >= 0; --k) {  // w^T P.
        const int64_t other = f.pivot[b * n + k] - 1;
        const C v = left[k];
        left[k] = left[other];
        left[other] = v;
      }
    }
    return (n - 1 - zero) % 2 == 0 ? product : -product;
  }
};

template <class C>
struct WriteGradient {
  GradientFactors<C> of;
  const C* inverse;
  In<C> dy;
  Out<C> da;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t n = of.f.size.n, b = i / n / n, row = i / n % n, column = i % n;
    C v = 0;  // A singular matrix has no numbers in `inverse`.
    if (of.of_inverse[b] != 0) v = of.of_inverse[b] * inverse[(b * n + column) * n + row];
    if (of.of_vectors[b] != 0) v = of.of_vectors[b] * of.x[b * n + row] * of.w[b * n + column];
    da.Set(i, dy[b] * v);
  }
};

// Inputs: a number for each matrix, and A. Output: the number times the cofactors or, with `log`, times A^-T.
template <bool log>
struct BackwardDeterminant {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp || out[0].Size() == 0) return absl::OkStatus();
    return DispatchReal(out[0].dtype, [&]<class C>(C) -> absl::Status {
      ASSIGN_OR_RETURN(const Factors<C> f, (Factorized<D, C>(ctx, in[1])));
      ASSIGN_OR_RETURN(const C* const inverse, (Inverses<D, C>(ctx, f)));
      GradientFactors<C> of = {f, log, nullptr, nullptr, nullptr, nullptr, nullptr};
      for (C** const space : {&of.of_inverse, &of.of_vectors}) {
        ASSIGN_OR_RETURN(*space, Space<C>(ctx, f.size.batch));
      }
      for (C** const space : {&of.x, &of.w, &of.carried}) {
        ASSIGN_OR_RETURN(*space, Space<C>(ctx, f.size.batch * f.size.n));
      }
      RETURN_IF_ERROR(ForEachGroup<D>(ctx, f.size.batch, f.size.matrix(), of));
      return ForEach<D>(ctx, out[0].Size(), WriteGradient<C>{of, inverse, In<C>(in[0]), Out<C>(out[0], req[0])});
    });
  }
};

#define OF_SQUARE(name, text)                                    \
  GLUOND_REGISTER_OP(name)                                       \
      .describe(text)                                            \
      .add_argument("A", "NDArray", "(batch..., n, n).")         \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace) \
      .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)

OF_SQUARE(_linalg_det, "The determinant of each matrix: (batch...), and (1) for one matrix.")
    .add_alias("linalg_det")
    .infer(NumberOfMatrixShape, SameFloatType)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_backward_linalg_det", {dy[0], node->inputs[0]})};
                         })
    .compute<Determinant<false>>();

OF_SQUARE(_linalg_slogdet, "The sign of each matrix' determinant, and the logarithm of its absolute value.")
    .add_alias("linalg_slogdet")
    .set_num_outputs(2)
    .set_attr<FListOutputNames>("FListOutputNames", Names({"sign", "logabsdet"}))
    .infer(NumberOfMatrixShape, SameFloatType)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_backward_linalg_slogdet", {dy[1], node->inputs[0]})};
                         })
    .compute<Determinant<true>>();

OF_SQUARE(_linalg_inverse, "The inverse of each matrix. A singular matrix is an error.")
    .add_alias("linalg_inverse")
    .infer(SquareShape, SameFloatType)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           const NodeEntry y = Output(node);
                           return {MatrixProduct(MatrixProduct(y, true, dy[0], false), false, y, true, -1)};
                         })
    .compute<Inverse>();

#define DET_BACKWARD(name, text)                                                         \
  GLUOND_REGISTER_OP(name)                                                               \
      .describe(text)                                                                    \
      .add_argument("scale", "NDArray", "A number for each matrix: (batch...), or (1).") \
      .add_argument("A", "NDArray", "(batch..., n, n).")                                 \
      .set_num_inputs(2)                                                                 \
      .infer(GradientShape<NumberOfMatrixShape>, SameFloatType)                          \
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace)                         \
      .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)

// With Z = g C and R = A^-T: dg = the sum of h C, and dA = the sum of h Z times R, less Z h^T R. Where A is singular, R is taken
// for 0.
DET_BACKWARD(_backward_linalg_det, "The gradient of a determinant: a number for each matrix, times its cofactors.")
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& h) -> Gradients {
                           const NodeEntry &g = node->inputs[0], &a = node->inputs[1], z = Output(node);
                           const NodeEntry one = Call("ones_like", {g});
                           const NodeEntry r = Call("_backward_linalg_slogdet", {one, a});
                           return {MatrixSum(h[0] * Call("_backward_linalg_det", {one, a})),
                                   Call("_backward_linalg_slogdet", {MatrixSum(h[0] * z), a}) -
                                       MatrixProduct(MatrixProduct(z, false, h[0], true), false, r, false)};
                         })
    .compute<BackwardDeterminant<false>>();

// With Z = g A^-T and R = A^-T: dg = the sum of h R, and dA = -Z h^T R.
DET_BACKWARD(_backward_linalg_slogdet,
             "The gradient of a determinant's logarithm: a number for each matrix, times its "
             "transposed inverse, or 0 where it has none.")
    .set_attr<FGradient>(
        "FGradient",
        [](const NodePtr& node, const Gradients& h) -> Gradients {
          const NodeEntry &g = node->inputs[0], &a = node->inputs[1];
          const NodeEntry r = Call("_backward_linalg_slogdet", {Call("ones_like", {g}), a});
          return {MatrixSum(h[0] * r), MatrixProduct(MatrixProduct(Output(node), false, h[0], true), false, r, false, -1)};
        })
    .compute<BackwardDeterminant<true>>();

}  // namespace
}  // namespace gluond::ops
