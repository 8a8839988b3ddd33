// Sums over windows of any size. One thread adds up a small window. A Group (kernel/rows.h), of a GPU a warp, adds up a
// large window, so that no thread of a GPU has the work of thousands.

#ifndef OPS_WINDOW_SUM_H_
#define OPS_WINDOW_SUM_H_

#include "ops/kernel/launch.h"
#include "ops/kernel/rows.h"
#include "ops/operator.h"

namespace gluond::ops {

// A window of so many elements is a group's.
inline constexpr int64_t kLargeWindow = 64;

// A group of one thread, on either device.
struct OneThread {
  template <class F>
  HOST_DEVICE auto Sum(int64_t n, const F& f) const {
    decltype(f(0)) sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += f(i);
    return sum;
  }
  template <class State, class F, class Combine>
  HOST_DEVICE State Reduce(int64_t n, State init, const F& f, const Combine& combine) const {
    for (int64_t i = 0; i < n; ++i) init = combine(init, f(i));
    return init;
  }
  HOST_DEVICE bool first() const { return true; }
};

template <class F>
struct ByOneThread {
  F f;
  HOST_DEVICE void operator()(int64_t i) const { f(OneThread(), i); }
};

// f(group, i) for i in [0, n), each of which adds up about `work` elements.
template <class D, class F>
absl::Status ForEachSum(const OpContext& ctx, int64_t n, int64_t work, const F& f) {
  if (work >= kLargeWindow) return ForEachGroup<D>(ctx, n, work, f);
  return ForEach<D>(ctx, n, ByOneThread<F>{f}, std::max<int64_t>(1, kGrain / (work + 1)));
}

// The sum of f(row, column). The group shares out the longer side.
template <class C, class Group, class F>
HOST_DEVICE C SumOfWindow(const Group& g, int64_t rows, int64_t columns, const F& f) {
  C sum = 0;
  if (columns >= rows) {
    for (int64_t r = 0; r < rows; ++r) sum += g.Sum(columns, [&](int64_t c) { return f(r, c); });
  } else {
    for (int64_t c = 0; c < columns; ++c) sum += g.Sum(rows, [&](int64_t r) { return f(r, c); });
  }
  return sum;
}

}  // namespace gluond::ops

#endif  // OPS_WINDOW_SUM_H_
