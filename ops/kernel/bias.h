// The gradient of a bias, a vector that every row of a matrix has got: the sum of the rows. (Gemm adds a bias.)

#ifndef OPS_KERNEL_BIAS_H_
#define OPS_KERNEL_BIAS_H_

#include "ops/kernel/channels.h"
#include "ops/kernel/column_sums.h"

namespace gluond::ops {

namespace bias_internal {

template <class X>
struct Element {
  X x;
  HOST_DEVICE void operator()(int64_t, int64_t i, double* terms) const { terms[0] = x[i]; }
};

}  // namespace bias_internal

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
