// Softmax of a row, and its gradient, for Rows (see rows.h): y[i] = e^(s x[i]) / sum_j e^(s x[j]), or its
// logarithm. The row's maximum is subtracted first, so that nothing overflows.

#ifndef OPS_KERNEL_SOFTMAX_H_
#define OPS_KERNEL_SOFTMAX_H_

#include <type_traits>

#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"

namespace gluond::ops {

template <bool log>
struct SoftmaxOf {
  double scale;
  template <class Group, class X, class Y>
  HOST_DEVICE void operator()(Group g, X x, Y y, int64_t n) const {
    using C = std::decay_t<decltype(x[0])>;
    const C s = static_cast<C>(scale);
    const C max = g.Max(n, [&](int64_t i) { return s * x[i]; });
    if constexpr (!log && std::is_same_v<decltype(y.y), C*>) {  // Plain memory keeps exponentials for the division.
      const C sum = g.Sum(n, [&](int64_t i) { return y.y[i] = math::Exp(s * x[i] - max); });
      g.ForEach(n, [&](int64_t i) { y.y[i] /= sum; });
      return;
    }
    const C sum = g.Sum(n, [&](int64_t i) { return math::Exp(s * x[i] - max); });
    if constexpr (log) {
      const C log_sum = math::Log(sum);
      g.ForEach(n, [&](int64_t i) { y.Set(i, s * x[i] - max - log_sum); });
    } else {
      g.ForEach(n, [&](int64_t i) { y.Set(i, math::Exp(s * x[i] - max) / sum); });
    }
  }
};
using Softmax = SoftmaxOf<false>;
using LogSoftmax = SoftmaxOf<true>;

// dx = s y (dy - sum_j y[j] dy[j]).
struct BackwardSoftmax {
  double scale;
  template <class Group, class DY, class Y, class DX>
  HOST_DEVICE void operator()(Group g, DY dy, Y y, DX dx, int64_t n) const {
    using C = std::decay_t<decltype(y[0])>;
    const C s = static_cast<C>(scale);
    const C sum = g.Sum(n, [&](int64_t i) { return y[i] * dy[i]; });
    g.ForEach(n, [&](int64_t i) { dx.Set(i, s * y[i] * (dy[i] - sum)); });
  }
};
// dx = s (dy - e^y sum_j dy[j]).
struct BackwardLogSoftmax {
  double scale;
  template <class Group, class DY, class Y, class DX>
  HOST_DEVICE void operator()(Group g, DY dy, Y y, DX dx, int64_t n) const {
    using C = std::decay_t<decltype(y[0])>;
    const C s = static_cast<C>(scale);
    const C sum = g.Sum(n, [&](int64_t i) { return dy[i]; });
    g.ForEach(n, [&](int64_t i) { dx.Set(i, s * (dy[i] - math::Exp(y[i]) * sum)); });
  }
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_SOFTMAX_H_
