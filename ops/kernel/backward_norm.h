// BackwardNorm: the gradient of y = gamma z + beta, z = (x - mean) / std along rows, std = sqrt(variance + eps). One
// pass goes over the rows, and one over the elements that share an element of gamma. With d = gamma dy:
//
//   dx = (d - mean(d) - z mean(d z)) / std,   dgamma = sum dy z,   dbeta = sum dy.
//
// Mean and std are made anew from x, in float for types of 16 bits: the forward pass's, rounded to 16, would not do.

#ifndef OPS_KERNEL_BACKWARD_NORM_H_
#define OPS_KERNEL_BACKWARD_NORM_H_

#include "ops/kernel/channels.h"
#include "ops/kernel/column_sums.h"
#include "ops/kernel/math.h"

namespace gluond::ops {

// The rows that are normalized, and where gamma lies: an element for each group, row r being of group r % groups; or,
// where groups is 0, along the row.
struct NormGeometry {
  RowGeometry rows;
  int64_t groups;
  double eps;

  // The axis that gamma lies along, among all elements.
  RowGeometry channels() const { return groups == 0 ? rows : RowGeometry{rows.outer / groups, groups, rows.n}; }
};

namespace backward_norm_internal {

// z = (x - mean) inverse.
template <class C>
struct Moments {
  C mean, inverse;
};

template <class C, class X, class Y>
struct Row {
  NormGeometry norm;
  X dy, x, gamma;
  Y dx;
  Moments<C>* moments;  // By row.
  bool set_dx;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    if (norm.groups > 0) {
      const C factor = gamma[row % norm.groups];
      Differentiate<true>(g, row, [&](int64_t) { return factor; });
    } else if (norm.rows.inner == 1) {
      Differentiate<true>(g, row, [&](int64_t i) { return gamma[i]; });
    } else {
      Differentiate<false>(g, row, [&](int64_t i) { return gamma[i]; });
    }
  }

 private:
  // `dense`: a row's elements lie together, so that g++ vectorizes. `factor`: the row's elements of gamma.
  template <bool dense, class Group, class Factor>
  HOST_DEVICE void Differentiate(Group g, int64_t row, const Factor& factor) const {
    const int64_t begin = norm.rows.begin(row), step = dense ? 1 : norm.rows.inner, n = norm.rows.n;
    const C count = static_cast<C>(n);
    const C mean = g.Sum(n, [&](int64_t i) { return x[begin + i * step]; }) / count;
    const C variance = g.Sum(n, [&](int64_t i) {
      const C d = x[begin + i * step] - mean;
      return d * d;
    }) / count;
    const C inverse = 1 / math::Sqrt(variance + static_cast<C>(norm.eps));
    if (g.first()) moments[row] = {mean, inverse};
    if (!set_dx) return;
    const auto d = [&](int64_t i) { return factor(i) * dy[begin + i * step]; };
    const auto z = [&](int64_t i) { return (x[begin + i * step] - mean) * inverse; };
    const C mean_d = g.Sum(n, d) / count;
    const C mean_dz = g.Sum(n, [&](int64_t i) { return d(i) * z(i); }) / count;
    g.ForEach(n, [&](int64_t i) { dx.Set(begin + i * step, (d(i) - mean_d - z(i) * mean_dz) * inverse); });
  }
};

// dy z and dy of each element.
template <class C, class X>
struct Terms {
  X dy, x;
  const Moments<C>* moments;

  HOST_DEVICE C dot(int64_t row, int64_t i) const {
    const Moments<C> m = moments[row];
    return dy[i] * ((x[i] - m.mean) * m.inverse);
  }
  HOST_DEVICE void operator()(int64_t row, int64_t i, double* terms) const {
    terms[0] = dot(row, i);
    terms[1] = dy[i];
  }
};

// The same where rows are single elements, and gamma lies across them.
template <class C, class X>
struct TermsOfElements : Terms<C, X> {
  HOST_DEVICE void operator()(int64_t, int64_t i, double* terms) const { Terms<C, X>::operator()(i, i, terms); }
};

// An element of gamma whose elements of x lie together in pieces.
template <class C, class X>
struct Channel {
  Terms<C, X> terms;
  RowGeometry channels;
  bool along_row;
  Out<C> dgamma, dbeta;
  bool set_dgamma, set_dbeta;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t c) const {
    double dot = 0, sum = 0;
    for (int64_t o = 0; o < channels.outer; ++o) {
      const int64_t piece = o * channels.n + c, begin = piece * channels.inner;
      const int64_t row = along_row ? o * channels.inner : piece, step = along_row ? 1 : 0;
      dot += g.Sum(channels.inner, [&](int64_t k) { return terms.dot(row + k * step, begin + k); });
      sum += g.Sum(channels.inner, [&](int64_t k) { return terms.dy[begin + k]; });
    }
    if (!g.first()) return;
    if (set_dgamma) dgamma.Set(c, static_cast<C>(dot));
    if (set_dbeta) dbeta.Set(c, static_cast<C>(sum));
  }
};

}  // namespace backward_norm_internal

// in: dy, x, gamma. out: dx, dgamma, dbeta. Uses temporary space.
template <class D>
absl::Status BackwardNorm(const OpContext& ctx, const NormGeometry& norm, absl::Span<const TBlob> in,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
  using namespace backward_norm_internal;
  const TBlob &dy = in[0], &x = in[1];
  const bool set_dx = req[0] != kNullOp, set_sums = req[1] != kNullOp || req[2] != kNullOp;
  return WithAccess(x.dtype, {x.dtype, dy.dtype, in[2].dtype, out[0].dtype}, req[0] == kAddTo,
                    [&](auto c, auto* in_type, auto* out_type) -> absl::Status {
                      using C = decltype(c);
                      using X = std::remove_pointer_t<decltype(in_type)>;
                      using Y = std::remove_pointer_t<decltype(out_type)>;
                      const int64_t rows = norm.rows.rows();
                      ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(static_cast<size_t>(rows) * sizeof(Moments<C>)));
                      auto* const moments = static_cast<Moments<C>*>(space);
                      if (set_dx || set_sums) {
                        RETURN_IF_ERROR(ForEachGroup<D>(
                            ctx, rows, norm.rows.n, Row<C, X, Y>{norm, X(dy), X(x), X(in[2]), Y(out[0], req[0]), moments, set_dx}));
                      }
                      if (!set_sums) return absl::OkStatus();
                      const Terms<C, X> terms = {X(dy), X(x), moments};
                      const RowGeometry channels = norm.channels();
                      const ColumnSum sums[] = {{out[1], req[1]}, {out[2], req[2]}};
                      if (channels.inner > 1) {
                        return ForEachGroup<D>(ctx, channels.n, channels.outer * channels.inner,
                                               Channel<C, X>{terms, channels, norm.groups == 0, Out<C>(out[1], req[1]),
                                                             Out<C>(out[2], req[2]), req[1] != kNullOp, req[2] != kNullOp});
                      }
                      if (norm.groups == 0) return ColumnSums<D, C>(ctx, channels.outer, channels.n, terms, sums);
                      return ColumnSums<D, C>(ctx, channels.outer, channels.n, TermsOfElements<C, X>{terms}, sums);
                    });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_BACKWARD_NORM_H_
