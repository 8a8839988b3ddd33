// Windows that move by one element, on the CPU. They are put together for many rows at once, axis by axis: a window of
// a x b x c elements costs a + b + c steps.

#ifndef OPS_KERNEL_CPU_POOL_DENSE_H_
#define OPS_KERNEL_CPU_POOL_DENSE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "ops/kernel/cpu/pool_stretch.h"

namespace gluond::ops::pool_internal {

constexpr int64_t kBlock = 4096;  // Elements of rows with their padding; two blocks stay in the first-level cache.

// The columns that a row of dense windows sees.
inline int64_t Pitch(const PoolSize& s) { return s.out[2] + s.kernel[2] - 1; }
inline bool IsDense(const PoolSize& s) {
  return s.stride == std::array<int64_t, 3>{1, 1, 1} && s.kernel[1] > 1 && 2 * s.kernel[1] * Pitch(s) <= kBlock;
}

// to[i] = fold of the `count` elements from[i], from[i + step], ...
template <class C, class Fold>
void FoldNeighbours(const C* __restrict from, int64_t count, int64_t step, int64_t size, const Fold& fold, C* __restrict to) {
  if (count == 1) return (void)std::copy_n(from, size, to);
  const C* next = from + step;
  for (int64_t i = 0; i < size; ++i) to[i] = fold(from[i], next[i]);
  int64_t k = 2;
  for (; k + 1 < count; k += 2) {
    const C* const a = from + k * step;
    const C* const b = a + step;
    for (int64_t i = 0; i < size; ++i) to[i] = fold(fold(to[i], a[i]), b[i]);
  }
  if (k == count) return;
  next = from + k * step;
  for (int64_t i = 0; i < size; ++i) to[i] = fold(to[i], next[i]);
}

// Puts the dense windows of rows [begin, end) of slice oz together in `result`, where rows lie Pitch elements apart.
template <class C, class Fold>
void FoldDense(const PoolSize& s, const C* x, int64_t oz, int64_t begin, int64_t end, C nothing, const Fold& fold, C* space,
               C* result) {
  const Extent slices = WindowExtent(s, 0, oz);
  const int64_t pitch = Pitch(s), left = s.pad[2], inside = std::min(s.in[2], pitch - left);
  for (int64_t row = 0; row < end - begin + s.kernel[1] - 1; ++row) {
    C* const to = result + row * pitch;
    const int64_t iy = begin - s.pad[1] + row;
    std::fill_n(to, pitch, nothing);
    if (iy < 0 || iy >= s.in[1]) continue;
    for (int64_t iz = slices.begin; iz < slices.end; ++iz) {
      const C* const from = x + (iz * s.in[1] + iy) * s.in[2];
      for (int64_t i = 0; i < inside; ++i) to[left + i] = fold(to[left + i], from[i]);
    }
  }
  const int64_t size = (end - begin) * pitch;
  FoldNeighbours(result, s.kernel[1], pitch, size, fold, space);
  FoldNeighbours(space, s.kernel[2], 1, size - s.kernel[2] + 1, fold, result);
}

// Calls body(oz, begin, end) for blocks of rows of a plane of dense windows, and finish(stretch, its place in the
// block) for each row after that.
template <class Body, class Finish>
void ForEachDenseBlock(const PoolSize& s, const Body& body, const Finish& finish) {
  const int64_t rows = kBlock / Pitch(s) - s.kernel[1] + 1;
  for (int64_t oz = 0; oz < s.out[0]; ++oz) {
    for (int64_t begin = 0; begin < s.out[1]; begin += rows) {
      const int64_t end = std::min(begin + rows, s.out[1]);
      body(oz, begin, end);
      for (int64_t oy = begin; oy < end; ++oy) {
        finish(Stretch{oz, oy, 0, s.out[2], (oz * s.out[1] + oy) * s.out[2]}, (oy - begin) * Pitch(s));
      }
    }
  }
}

// Calls finish(stretch, its folded windows) for each row of a plane of dense windows.
template <class C, class Fold, class Finish>
void ForEachDenseRow(const PoolSize& s, const C* x, C nothing, const Fold& fold, const Finish& finish) {
  C space[kBlock], result[kBlock];
  ForEachDenseBlock(
      s, [&](int64_t oz, int64_t begin, int64_t end) { FoldDense(s, x, oz, begin, end, nothing, fold, space, result); },
      [&](const Stretch& t, int64_t at) { finish(t, result + at); });
}

template <class C>
void DensePlane(const PoolSize& s, const C* x, bool add, C* y) {
  const std::integral_constant<int64_t, 1> stride;
  if (s.type == PoolType::kMax) {
    return ForEachDenseRow(s, x, Lowest<C>(), Larger<C>(), [&](const Stretch& t, C* best) {
      ClearEmpty(s, t, best);
      Store(best, t, add, y);
    });
  }
  ForEachDenseRow(s, x, C{0}, Plus<C>(), [&](const Stretch& t, C* sums) {
    Divide(s, stride, t, sums);
    Store(sums, t, add, y);
  });
}

// The largest of some elements, and where each lies in its plane; -1: nowhere.
template <class C>
struct Maxima {
  C best[kBlock];
  int32_t at[kBlock];

  void Clear(int64_t begin, int64_t size) {
    std::fill_n(best + begin, size, Lowest<C>());
    std::fill_n(at + begin, size, -1);
  }
  // Each takes the other from `offset` on where that is larger. The others come later in row-major order.
  void Take(const Maxima& others, int64_t offset, int64_t size) {
    const C* const v = others.best + offset;
    const int32_t* const v_at = others.at + offset;
    for (int64_t i = 0; i < size; ++i) {
      const bool take = ((v[i] > best[i]) | (v[i] != v[i]) | (at[i] < 0)) & (best[i] == best[i]);
      at[i] = take ? v_at[i] : at[i];
      best[i] = take ? v[i] : best[i];
    }
  }
  // Each is the largest of `count` of the others, `step` apart.
  void SetToNeighbours(const Maxima& others, int64_t count, int64_t step, int64_t size) {
    std::copy_n(others.best, size, best);
    std::copy_n(others.at, size, at);
    for (int64_t k = 1; k < count; ++k) Take(others, k * step, size);
  }
};

// As FoldDense, with the positions. Rows are put together first: of equal elements the first in row-major order is
// wanted.
template <class C>
void MaxDense(const PoolSize& s, const C* x, int64_t oz, int64_t begin, int64_t end, Maxima<C>* seen, Maxima<C>* space,
              Maxima<C>* result) {
  const Extent slices = WindowExtent(s, 0, oz);
  const int64_t pitch = Pitch(s), left = s.pad[2], inside = std::min(s.in[2], pitch - left);
  const int64_t rows = end - begin + s.kernel[1] - 1, beyond = s.kernel[2] - 1;
  const int64_t size = (end - begin) * pitch - beyond;
  result->Clear(0, size);
  for (int64_t iz = slices.begin; iz < slices.end; ++iz) {
    seen->Clear(0, rows * pitch);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t iy = begin - s.pad[1] + row;
      if (iy < 0 || iy >= s.in[1]) continue;
      const int64_t first = (iz * s.in[1] + iy) * s.in[2], to = row * pitch + left;
      std::copy_n(x + first, inside, seen->best + to);
      for (int64_t i = 0; i < inside; ++i) seen->at[to + i] = static_cast<int32_t>(first + i);
    }
    space->SetToNeighbours(*seen, s.kernel[2], 1, rows * pitch - beyond);
    seen->SetToNeighbours(*space, s.kernel[1], pitch, size);
    result->Take(*seen, 0, size);
  }
}

// y may be null.
template <class C>
void DenseIndexPlane(const PoolSize& s, const C* x, bool add, C* y, bool add_index, int32_t* index) {
  Maxima<C> seen, space, result;
  ForEachDenseBlock(
      s, [&](int64_t oz, int64_t begin, int64_t end) { MaxDense(s, x, oz, begin, end, &seen, &space, &result); },
      [&](const Stretch& t, int64_t row) {
        ClearEmpty(s, t, result.best + row);
        if (y != nullptr) Store(result.best + row, t, add, y);
        Store(result.at + row, t, add_index, index);
      });
}

// The sums that bring the shares of dense windows back to the inputs: each input is seen by the windows around it.
inline PoolSize Transposed(const PoolSize& s) {
  PoolSize back = s;
  back.type = PoolType::kSum;
  std::swap(back.in, back.out);
  for (int axis = 0; axis < 3; ++axis) back.pad[axis] = s.kernel[axis] - 1 - s.pad[axis];
  return back;
}

}  // namespace gluond::ops::pool_internal

#endif  // OPS_KERNEL_CPU_POOL_DENSE_H_
