// Windows of a pooling on a CPU, a stretch of outputs at a time. The loops here find the positions of maxima, go the
// way back, and compute all poolings of wide windows and few outputs, as global pooling is. For those, loops run
// along the windows' rows, for others along the outputs.

#ifndef OPS_KERNEL_CPU_POOL_WINDOWS_H_
#define OPS_KERNEL_CPU_POOL_WINDOWS_H_

#include <algorithm>
#include <cstdint>

#include "ops/kernel/cpu/pool_stretch.h"
#include "ops/kernel/launch.h"

namespace gluond::ops::pool_internal {

inline constexpr int64_t kChunk = 128;  // Outputs of a row at a time; their state stays in the first-level cache.
inline constexpr int64_t kSpan = 1024;  // Columns that they see.

// The outputs [begin, end) of a stretch whose window element kx lies inside the row, at `offset` for output 0.
struct Run {
  int64_t begin, end, offset;

  template <class Stride>
  Run(const PoolSize& s, Stride stride, int64_t kx, const Stretch& t) : offset(kx - s.pad[2]) {
    begin = std::max(t.first, offset >= 0 ? 0 : (-offset + stride - 1) / stride);
    end = std::min(t.last, s.in[2] - 1 - offset < 0 ? 0 : (s.in[2] - 1 - offset) / stride + 1);
  }
};

// Calls body(input row) for the rows of every window of a stretch.
template <class Body>
void ForEachRow(const PoolSize& s, const Stretch& t, const Body& body) {
  const Extent slices = WindowExtent(s, 0, t.oz), rows = WindowExtent(s, 1, t.oy);
  for (int64_t iz = slices.begin; iz < slices.end; ++iz) {
    for (int64_t iy = rows.begin; iy < rows.end; ++iy) body((iz * s.in[1] + iy) * s.in[2]);
  }
}

// Calls body(input row, Run) for the rows and elements of every window of a stretch.
template <class Stride, class Body>
void ForEachRun(const PoolSize& s, Stride stride, const Stretch& t, const Body& body) {
  ForEachRow(s, t, [&](int64_t row) {
    for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
      if (const Run run(s, stride, kx, t); run.begin < run.end) body(row, run);
    }
  });
}

// True where loops along windows are longer than loops along outputs.
inline bool IsWide(const PoolSize& s) { return s.kernel[2] >= 2 * s.out[2] || s.kernel[2] > kSpan / 2; }

// The columns that the windows of a stretch see, padding included: column i is element `start` + i of a row, inside the
// row for i in [begin, end).
struct Columns {
  int64_t start, size, begin, end;

  Columns(const PoolSize& s, const Stretch& t)
      : start(t.first * s.stride[2] - s.pad[2]), size((t.size() - 1) * s.stride[2] + s.kernel[2]) {
    begin = std::clamp<int64_t>(-start, 0, size);
    end = std::clamp<int64_t>(s.in[2] - start, begin, size);
  }
  // True where they lie in one row of the plane, from *first on.
  bool AreIn(const PoolSize& s, const Stretch& t, int64_t* first) const {
    const Extent slices = WindowExtent(s, 0, t.oz), rows = WindowExtent(s, 1, t.oy);
    *first = (slices.begin * s.in[1] + rows.begin) * s.in[2] + start;
    return begin == 0 && end == size && slices.end - slices.begin == 1 && rows.end - rows.begin == 1;
  }
};

// Sets best[j] and at[j] for output j of the stretch by the elements of its window, in order. best[j] is minus infinity
// for an empty window, too.
template <class C, class Stride>
void MaxRuns(const PoolSize& s, Stride stride, const C* x, const Stretch& t, C* best, int32_t* at) {
  ForEachRun(s, stride, t, [&](int64_t row, const Run& run) {
    const C* const from = x + row + run.offset;
    const int32_t base = static_cast<int32_t>(row + run.offset);
    for (int64_t ox = run.begin; ox < run.end; ++ox) {
      const C v = from[ox * stride];
      const int64_t j = ox - t.first;
      const bool take = (v > best[j]) | (v != v) | (at[j] < 0), keep = best[j] != best[j];
      at[j] = take & !keep ? base + static_cast<int32_t>(ox * stride) : at[j];
      best[j] = take & !keep ? v : best[j];
    }
  });
}

// The position of the first largest of n > 0 elements, or of the first NaN.
template <class C>
int64_t FirstLargest(const C* x, int64_t n) {
  C largest = x[0];
  int nans = 0;
  SIMD_REDUCE(max, largest)
  for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  SIMD_REDUCE(|, nans)
  for (int64_t i = 0; i < n; ++i) nans |= x[i] != x[i];
  for (int64_t i = 0; i < n; ++i) {
    if (nans != 0 ? x[i] != x[i] : x[i] == largest) return i;
  }
  return 0;
}

// As MaxRuns, window by window.
template <class C>
void MaxWindows(const PoolSize& s, const C* x, const Stretch& t, C* best, int32_t* at) {
  for (int64_t j = 0; j < t.size(); ++j) {
    const Extent cols = WindowExtent(s, 2, t.first + j);
    if (cols.begin >= cols.end) continue;
    ForEachRow(s, t, [&](int64_t row) {
      if (best[j] != best[j]) return;
      const int64_t p = row + cols.begin + FirstLargest(x + row + cols.begin, cols.end - cols.begin);
      if (at[j] >= 0 && !(x[p] > best[j] || x[p] != x[p])) return;
      best[j] = x[p];
      at[j] = static_cast<int32_t>(p);
    });
  }
}

// y and index are planes; y may be null.
template <class C, class Stride>
void IndexStretch(const PoolSize& s, Stride stride, const C* x, const Stretch& t, bool add, C* y, bool add_index, int32_t* index) {
  C best[kChunk];
  int32_t at[kChunk];
  std::fill_n(best, t.size(), Lowest<C>());
  std::fill_n(at, t.size(), -1);
  IsWide(s) ? MaxWindows(s, x, t, best, at) : MaxRuns(s, stride, x, t, best, at);
  ClearEmpty(s, t, best);
  if (y != nullptr) Store(best, t, add, y);
  Store(at, t, add_index, index);
}

template <class C>
void WideMaxStretch(const PoolSize& s, const C* x, const Stretch& t, bool add, C* y) {
  C best[kChunk];
  int32_t at[kChunk];
  std::fill_n(best, t.size(), Lowest<C>());
  std::fill_n(at, t.size(), -1);
  MaxWindows(s, x, t, best, at);
  ClearEmpty(s, t, best);
  Store(best, t, add, y);
}

// The sum of n elements, with a sum for each half, as additions to one number wait for each other.
template <class C>
C Sum(const C* x, int64_t n) {
  const int64_t half = n / 2;
  const C* const second = x + half;
  C a = n % 2 == 0 ? 0 : x[n - 1], b = 0;
  SIMD_PRAGMA(omp simd reduction(+ : a, b))
  for (int64_t i = 0; i < half; ++i) a += x[i], b += second[i];
  return a + b;
}

template <class C, class Stride>
void WideSumStretch(const PoolSize& s, Stride stride, const C* x, const Stretch& t, bool add, C* y) {
  C sums[kChunk];
  std::fill_n(sums, t.size(), C{0});
  for (int64_t j = 0; j < t.size(); ++j) {
    const Extent cols = WindowExtent(s, 2, t.first + j);
    ForEachRow(s, t, [&](int64_t row) { sums[j] += Sum(x + row + cols.begin, cols.end - cols.begin); });
  }
  Divide(s, stride, t, sums);
  Store(sums, t, add, y);
}

template <class C, class Stride>
void SpreadStretch(const PoolSize& s, Stride stride, const C* dy, const Stretch& t, C* dx) {
  C share[kChunk];
  std::copy_n(dy + t.begin, t.size(), share);
  Divide(s, stride, t, share);
  if (IsWide(s)) {
    for (int64_t j = 0; j < t.size(); ++j) {
      const Extent cols = WindowExtent(s, 2, t.first + j);
      ForEachRow(s, t, [&](int64_t row) {
        for (int64_t ix = cols.begin; ix < cols.end; ++ix) dx[row + ix] += share[j];
      });
    }
    return;
  }
  const Columns columns(s, t);
  C sums[kSpan];
  int64_t first = 0;
  const bool in_place = columns.AreIn(s, t, &first);
  C* const shares = in_place ? dx + first : sums;
  if (!in_place) std::fill_n(shares, columns.size, C{0});
  const int64_t n = t.size();
  for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
    for (int64_t j = 0; j < n; ++j) shares[j * stride + kx] += share[j];
  }
  if (in_place) return;
  ForEachRow(s, t, [&](int64_t row) {
    const int64_t begin = row + columns.start;
    for (int64_t i = columns.begin; i < columns.end; ++i) dx[begin + i] += shares[i];
  });
}

// Outputs of a stretch: a row, or a part of a long one.
inline int64_t ChunkOf(const PoolSize& s) {
  const int64_t room = std::max<int64_t>(kSpan - s.kernel[2], 0) / s.stride[2] + 1;
  return std::min({kChunk, room, s.out[2]});
}

// Calls body(stretch) for all outputs of a plane.
template <class Body>
void ForEachStretch(const PoolSize& s, const Body& body) {
  const int64_t chunk = ChunkOf(s);
  for (int64_t row = 0; row < s.out[0] * s.out[1]; ++row) {
    for (int64_t ox = 0; ox < s.out[2]; ox += chunk) {
      body(Stretch{row / s.out[1], row % s.out[1], ox, std::min(ox + chunk, s.out[2]), row * s.out[2] + ox});
    }
  }
}

}  // namespace gluond::ops::pool_internal

#endif  // OPS_KERNEL_CPU_POOL_WINDOWS_H_
