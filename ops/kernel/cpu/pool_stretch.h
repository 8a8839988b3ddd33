// Stretches of outputs of a pooling on a CPU: the functions that put elements together and finish the results.

#ifndef OPS_KERNEL_CPU_POOL_STRETCH_H_
#define OPS_KERNEL_CPU_POOL_STRETCH_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ops/kernel/pool.h"

namespace gluond::ops::pool_internal {

// Outputs [first, last) of output row (oz, oy), of which the first lies at `begin` in its plane.
struct Stretch {
  int64_t oz, oy, first, last, begin;

  int64_t size() const { return last - first; }
};

template <class C>
C Lowest() {
  return -std::numeric_limits<C>::infinity();
}

template <class C>
struct Larger {
  C operator()(C best, C v) const { return (v > best) | (v != v) ? v : best; }
};
template <class C>
struct Plus {
  C operator()(C sum, C v) const { return sum + v; }
};

// best[j] = 0 where the window is empty. Only the last windows along an axis can be.
template <class C>
void ClearEmpty(const PoolSize& s, const Stretch& t, C* best) {
  const auto empty = [&](int axis, int64_t o) {
    const Extent e = WindowExtent(s, axis, o);
    return e.begin >= e.end;
  };
  if (empty(0, t.oz) || empty(1, t.oy)) return (void)std::fill_n(best, t.size(), C{0});
  for (int64_t ox = t.last; ox > t.first && empty(2, ox - 1); --ox) best[ox - 1 - t.first] = 0;
}

// Writes the results of a stretch to its plane, or adds them.
template <class T>
void Store(const T* found, const Stretch& t, bool add, T* plane) {
  if (!add) return (void)std::copy_n(found, t.size(), plane + t.begin);
  for (int64_t j = 0; j < t.size(); ++j) plane[t.begin + j] += found[j];
}

// v[j] /= the divisor of output j of the stretch. Windows that lie inside the row have the same divisor.
template <class C, class Stride>
void Divide(const PoolSize& s, Stride stride, const Stretch& t, C* v) {
  if (s.type != PoolType::kAvg) return;
  const Extent z = WindowExtent(s, 0, t.oz), y = WindowExtent(s, 1, t.oy);
  const auto divisor = [&](int64_t ox) { return static_cast<C>(Divisor(s, z, y, WindowExtent(s, 2, ox))); };
  const int64_t room = s.in[2] + s.pad[2] - s.kernel[2];
  const int64_t inside = std::clamp((s.pad[2] + stride - 1) / stride, t.first, t.last);
  const int64_t beyond = std::clamp(room < 0 ? 0 : room / stride + 1, inside, t.last);
  for (int64_t ox = t.first; ox < inside; ++ox) v[ox - t.first] /= divisor(ox);
  const C common = divisor(inside);
  for (int64_t ox = inside; ox < beyond; ++ox) v[ox - t.first] /= common;
  for (int64_t ox = beyond; ox < t.last; ++ox) v[ox - t.first] /= divisor(ox);
}

}  // namespace gluond::ops::pool_internal

#endif  // OPS_KERNEL_CPU_POOL_STRETCH_H_
