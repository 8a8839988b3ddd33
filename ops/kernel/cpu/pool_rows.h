// Windows of a pooling on a CPU, put together for many rows of outputs at once. The elements that a row of outputs sees
// are folded to one row of columns. Then the columns of many rows, of several planes where planes are small, are folded to
// outputs. All inner loops run over neighbours and vectorize: a window of a x b x c elements costs a x b + c steps.

#ifndef OPS_KERNEL_CPU_POOL_ROWS_H_
#define OPS_KERNEL_CPU_POOL_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "ops/kernel/cpu/pool_stretch.h"
#include "ops/kernel/cpu/pool_windows.h"

namespace gluond::ops::pool_internal {

inline constexpr int64_t kColumns = 4096;  // Columns of all rows at a time; they stay in the first-level cache.

// How stretches lie in a row of columns, and what holds for all windows.
struct RowPlan {
  int64_t chunk;    // Outputs of a stretch.
  int64_t chunks;   // Stretches of a row.
  int64_t step;     // Columns from one output to the next.
  int64_t pitch;    // Outputs from one stretch to the next; those between have no meaning.
  bool all_inside;  // No window has padding or ends beyond the edge.
  bool some_empty;

  explicit RowPlan(const PoolSize& s)
      : chunk(ChunkOf(s)),
        chunks((s.out[2] - 1) / chunk + 1),
        step(s.stride[2] > kSpan ? s.kernel[2] : s.stride[2]),
        pitch(chunk + (s.kernel[2] - 1) / step),
        all_inside(true),
        some_empty(false) {
    for (int axis = 0; axis < 3; ++axis) {
      const Extent last = WindowExtent(s, axis, s.out[axis] - 1);
      all_inside = all_inside && s.pad[axis] == 0 && last.end - last.begin == s.kernel[axis];
      some_empty = some_empty || last.begin >= last.end;
    }
  }
  int64_t stretches(const PoolSize& s) const { return s.planes * s.out[0] * s.out[1] * chunks; }
  int64_t columns() const { return pitch * step; }
  // The outputs of consecutive stretches are neighbours, as they are in y.
  bool dense() const { return chunks == 1 && pitch == chunk; }
};

// One of the stretches of all planes, which follow one another.
struct StretchPlace {
  int64_t plane;
  Stretch stretch;

  StretchPlace(const PoolSize& s, const RowPlan& plan, int64_t index) {
    const int64_t row = index / plan.chunks, in_plane = row % (s.out[0] * s.out[1]);
    plane = row / (s.out[0] * s.out[1]);
    Set(s, plan, in_plane / s.out[1], in_plane % s.out[1], index % plan.chunks * plan.chunk);
  }
  void Next(const PoolSize& s, const RowPlan& plan) {
    const auto [oz, oy, first, last, begin] = stretch;
    if (last < s.out[2]) return Set(s, plan, oz, oy, last);
    if (oy + 1 < s.out[1]) return Set(s, plan, oz, oy + 1, 0);
    if (oz + 1 < s.out[0]) return Set(s, plan, oz + 1, 0, 0);
    ++plane;
    Set(s, plan, 0, 0, 0);
  }

 private:
  void Set(const PoolSize& s, const RowPlan& plan, int64_t oz, int64_t oy, int64_t first) {
    stretch = {oz, oy, first, std::min(first + plan.chunk, s.out[2]), (oz * s.out[1] + oy) * s.out[2] + first};
  }
};

// to[i] = the fold of column i of `slices` times `rows` rows of a plane, of `size` elements; the first begins at x.
template <class C, class Fold>
void FoldColumns(const PoolSize& s, const C* x, int64_t slices, int64_t rows, int64_t size, const Fold& fold, C* __restrict to) {
  const int64_t pitch = s.in[2];
  const bool pair = rows > 1;
  if (pair) {
    for (int64_t i = 0; i < size; ++i) to[i] = fold(x[i], x[pitch + i]);
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = x[i];
  }
  int64_t row = pair ? 2 : 1;
  for (int64_t slice = 0; slice < slices; ++slice, row = 0) {
    for (; row < rows; ++row) {
      const C* const from = x + (slice * s.in[1] + row) * pitch;
      for (int64_t i = 0; i < size; ++i) to[i] = fold(to[i], from[i]);
    }
  }
}

// The columns of a stretch, `nothing` for the padding.
template <class C, class Fold>
void FoldStretch(const PoolSize& s, const C* x, const Stretch& t, C nothing, const Fold& fold, C* to) {
  const Columns columns(s, t);
  const Extent slices = WindowExtent(s, 0, t.oz), rows = WindowExtent(s, 1, t.oy);
  if (slices.begin >= slices.end || rows.begin >= rows.end) return (void)std::fill_n(to, columns.size, nothing);
  std::fill_n(to, columns.begin, nothing);
  std::fill(to + columns.end, to + columns.size, nothing);
  const int64_t first = (slices.begin * s.in[1] + rows.begin) * s.in[2] + columns.start + columns.begin;
  FoldColumns(s, x + first, slices.end - slices.begin, rows.end - rows.begin, columns.end - columns.begin, fold,
              to + columns.begin);
}

// y[j] = the fold of `kernel` columns from j * step on.
template <class C, class Step, class Fold>
void FoldOutputs(const C* __restrict columns, Step step, int64_t kernel, int64_t n, const Fold& fold, C* __restrict y) {
  if (kernel == 1) {
    for (int64_t j = 0; j < n; ++j) y[j] = columns[j * step];
    return;
  }
  for (int64_t j = 0; j < n; ++j) y[j] = fold(columns[j * step], columns[j * step + 1]);
  int64_t kx = 2;
  for (; kx + 1 < kernel; kx += 2) {
    for (int64_t j = 0; j < n; ++j) y[j] = fold(fold(y[j], columns[j * step + kx]), columns[j * step + kx + 1]);
  }
  if (kx == kernel) return;
  for (int64_t j = 0; j < n; ++j) y[j] = fold(y[j], columns[j * step + kx]);
}

// The outputs of stretches [begin, end) of all planes. Requires: !IsWide(s), step == plan.step.
template <class C, class Step, class Fold>
void FoldRows(const PoolSize& s, const RowPlan& plan, Step step, const C* x, int64_t begin, int64_t end, C nothing,
              const Fold& fold, bool add, C* y) {
  C columns[kColumns], outputs[kColumns];
  const bool in_place = plan.dense() && plan.all_inside && !add;
  const C divisor = static_cast<C>(Divisor(s, 0, 0, 0));
  const int64_t most = kColumns / plan.columns();
  StretchPlace next(s, plan, begin);
  for (int64_t at = begin; at < end; at += most) {
    const int64_t count = std::min(most, end - at), n = (count - 1) * plan.pitch + plan.chunk;
    StretchPlace place = next;
    for (int64_t k = 0; k < count; ++k, next.Next(s, plan)) {
      const C* const from = x + next.plane * s.in_plane();
      const Stretch& t = next.stretch;
      C* const to = columns + k * plan.columns();
      if (!plan.all_inside) {
        FoldStretch(s, from, t, nothing, fold, to);
        continue;
      }
      const int64_t first = (t.oz * s.stride[0] * s.in[1] + t.oy * s.stride[1]) * s.in[2] + t.first * s.stride[2];
      FoldColumns(s, from + first, s.kernel[0], s.kernel[1], (t.size() - 1) * s.stride[2] + s.kernel[2], fold, to);
    }
    if (in_place) {
      C* const to = y + at * plan.chunk;
      FoldOutputs(columns, step, s.kernel[2], n, fold, to);
      if (divisor == 1) continue;
      for (int64_t j = 0; j < n; ++j) to[j] /= divisor;
      continue;
    }
    FoldOutputs(columns, step, s.kernel[2], n, fold, outputs);
    for (int64_t k = 0; k < count; ++k, place.Next(s, plan)) {
      C* const found = outputs + k * plan.pitch;
      if (plan.some_empty) ClearEmpty(s, place.stretch, found);
      Divide(s, s.stride[2], place.stretch, found);
      Store(found, place.stretch, add, y + place.plane * s.out_plane());
    }
  }
}

}  // namespace gluond::ops::pool_internal

#endif  // OPS_KERNEL_CPU_POOL_ROWS_H_
