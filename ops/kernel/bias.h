// Bias: a vector along the rows of a matrix, added to every row; and its gradient, the sum of the rows.

#ifndef OPS_KERNEL_BIAS_H_
#define OPS_KERNEL_BIAS_H_

#include "ops/kernel/channels.h"
#include "ops/kernel/column_sums.h"
#include BACKEND(bias.h)

namespace gluond::ops {

namespace bias_internal {

template <class X>
struct Element {
  X x;
  HOST_DEVICE void operator()(int64_t, int64_t i, double* terms) const { terms[0] = x[i]; }
};

}  // namespace bias_internal

// y[r, c] += bias[c].
template <class D>
absl::Status AddToRows(const OpContext& ctx, const TBlob& bias, const TBlob& y) {
  if (y.Size() == 0) return absl::OkStatus();
  return DispatchReal(y.dtype, [&](auto c) { return AddToRowsOn<decltype(c)>(D(), ctx, bias, y); });
}

// y[c] = sum_r x[r, c].
template <class D>
absl::Status SumColumns(const OpContext& ctx, const TBlob& x, OpReqType req, const TBlob& y) {
  const int64_t cols = y.Size();
  if (req == kNullOp || cols == 0) return absl::OkStatus();
  return WithAccess(y.dtype, {x.dtype}, /*add=*/false, [&](auto c, auto* in_type, auto*) {
    using X = std::remove_pointer_t<decltype(in_type)>;
    return ColumnSums<D, decltype(c), 1>(ctx, x.Size() / cols, cols, bias_internal::Element<X>{X(x)}, {{y, req}});
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_BIAS_H_
