// Rows: an operator that treats each row (the elements along one axis) as a whole, from one functor. A row is done by
// a Group: one thread on a CPU, one warp on a GPU. The functor says what the row needs, not who computes it:
//
//   struct Softmax {
//     template <class Group, class X, class Y>
//     HOST_DEVICE void operator()(Group g, X x, Y y, int64_t n) const {
//       const auto max = g.Max(n, [&](int64_t i) { return x[i]; });
//       const auto sum = g.Sum(n, [&](int64_t i) { return math::Exp(x[i] - max); });
//       g.ForEach(n, [&](int64_t i) { y.Set(i, math::Exp(x[i] - max) / sum); });
//     }
//   };
//   ... Rows<D, 1>(ctx, RowsOf(x[0].shape, axis), Softmax{}, x.data(), req[0], y[0])
//
// x[i] and Set take float or double, whatever the tensors hold: see convert.h. With several inputs the functor gets
// (g, x0, x1, ..., y, n). ForEachGroup is the layer below, for other functors: it hands out row numbers only.

#ifndef OPS_KERNEL_ROWS_H_
#define OPS_KERNEL_ROWS_H_

#include "ops/kernel/map.h"
#include "ops/kernel/row_geometry.h"

namespace gluond::ops {

namespace rows_internal {

// One row of a tensor: element i lies at begin + i * stride.
template <class C>
struct RowIn {
  In<C> x;
  int64_t begin, stride;
  HOST_DEVICE C operator[](int64_t i) const { return x[begin + i * stride]; }
};
template <class C>
struct RowOut {
  Out<C> y;
  int64_t begin, stride;
  HOST_DEVICE void Set(int64_t i, C v) const { y.Set(begin + i * stride, v); }
};

template <class C, class F, size_t... k>
struct StridedRow {
  F f;
  RowGeometry rows;
  In<C> x[sizeof...(k)];
  Out<C> y;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t begin = rows.begin(row);
    f(g, RowIn<C>{x[k], begin, rows.inner}..., RowOut<C>{y, begin, rows.inner}, rows.n);
  }
};

}  // namespace rows_internal

}  // namespace gluond::ops

#include BACKEND(rows.h)

namespace gluond::ops {

// f(group, row) for row in [0, rows); `n`, the work in one row, decides how rows are shared out.
template <class D, class F>
absl::Status ForEachGroup(const OpContext& ctx, int64_t rows, int64_t n, const F& f) {
  return rows == 0 ? absl::OkStatus() : ForEachGroupOn(D(), ctx, rows, n, f);
}

// f over every row of `inputs` inputs and one output of equal shape. y may be one of the inputs when f reads x[i] for
// the last time before it sets y[i].
template <class D, int inputs, class F>
absl::Status Rows(const OpContext& ctx, const RowGeometry& rows, const F& f, const TBlob* x, OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  return DispatchReal(y.dtype, [&](auto c) {
    return rows_internal::Run<decltype(c)>(D(), ctx, rows, f, x, req, y, std::make_index_sequence<inputs>());
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_ROWS_H_
