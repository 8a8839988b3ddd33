// Column sums: y_k[c] = sum over r in [0, rows) of term k at (r, c), for `terms` matrices that are computed, not
// stored.
//
//   struct Element {
//     In<float> x;
//     HOST_DEVICE void operator()(int64_t row, int64_t i, double* terms) const { terms[0] = x[i]; }
//   };
//   ColumnSums<D, float, 1>(ctx, rows, cols, Element{In<float>(x)}, {{y, req}})
//
// i is row * cols + column, the element. The sums are made in double, in an order that depends on the shape alone: as
// exact as `sum`, however many rows there are.

#ifndef OPS_KERNEL_COLUMN_SUMS_H_
#define OPS_KERNEL_COLUMN_SUMS_H_

#include "ops/kernel/map.h"

namespace gluond::ops {

// Where a term's sums go; one with kNullOp is left out.
struct ColumnSum {
  TBlob y;
  OpReqType req;
};

}  // namespace gluond::ops

#include BACKEND(column_sums.h)

namespace gluond::ops {

// C: the type of the results before they are stored. y_k has `cols` elements.
template <class D, class C, int terms, class F>
absl::Status ColumnSums(const OpContext& ctx, int64_t rows, int64_t cols, const F& f, const ColumnSum (&sums)[terms]) {
  bool wanted = false;
  for (const ColumnSum& sum : sums) wanted = wanted || sum.req != kNullOp;
  if (!wanted || cols == 0) return absl::OkStatus();
  return column_sums_internal::Run<C>(D(), ctx, rows, cols, f, sums);
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_COLUMN_SUMS_H_
