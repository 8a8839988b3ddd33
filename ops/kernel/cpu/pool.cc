// Pooling on the CPU: planes to threads. What a stretch of outputs sees is put together row by row, and its columns are
// put together after that, so that the inner loops run over neighbours and vectorize, and a window of a x b x c elements
// costs a x b + c steps. Where windows are wide and outputs few, as in global pooling, the loops run along the window's
// rows instead. Windows that move by one element have a way of their own (pool_dense.h).

#include <algorithm>
#include <type_traits>

#include "engine/core/status_macros.h"
#include "ops/kernel/cpu/pool_dense.h"
#include "ops/kernel/cpu/widen.h"
#include "ops/kernel/pool.h"

namespace gluond::ops {
namespace {

using namespace pool_internal;

constexpr int64_t kChunk = 128;  // Outputs of a row at a time; their state stays in the first-level cache.
constexpr int64_t kSpan = 1024;  // Columns that they see.

// Those outputs of a stretch whose window element kx is inside the row, and that element of output 0.
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
bool IsWide(const PoolSize& s) { return s.kernel[2] >= 2 * s.out[2] || s.kernel[2] > kSpan / 2; }

// The columns that the windows of a stretch see, padding included: column i is element `start` + i of a row, inside the
// row for i in [begin, end).
struct Columns {
  int64_t start, size, begin, end;

  Columns(const PoolSize& s, const Stretch& t)
      : start(t.first * s.stride[2] - s.pad[2]), size((t.size() - 1) * s.stride[2] + s.kernel[2]) {
    begin = std::clamp<int64_t>(-start, 0, size);
    end = std::clamp<int64_t>(s.in[2] - start, begin, size);
  }
  // Whether they are part of one row of the plane, and where.
  bool AreIn(const PoolSize& s, const Stretch& t, int64_t* first) const {
    const Extent slices = WindowExtent(s, 0, t.oz), rows = WindowExtent(s, 1, t.oy);
    *first = (slices.begin * s.in[1] + rows.begin) * s.in[2] + start;
    return begin == 0 && end == size && slices.end - slices.begin == 1 && rows.end - rows.begin == 1;
  }
};

// y[j] = fold(y[j], element) for every element of the window of output j of the stretch, `nothing` for the padding:
// first each column's elements, in order, then the columns. A single row without padding is taken where it lies.
template <class C, class Stride, class Fold>
void FoldWindows(const PoolSize& s, Stride stride, const C* x, const Stretch& t, C nothing, const Fold& fold, C* y) {
  const Columns columns(s, t);
  C folded[kSpan];
  const C* seen = folded;
  if (int64_t first = 0; columns.AreIn(s, t, &first)) {
    seen = x + first;
  } else {
    std::fill_n(folded, columns.size, nothing);
    ForEachRow(s, t, [&](int64_t row) {
      const int64_t begin = row + columns.start;
      for (int64_t i = columns.begin; i < columns.end; ++i) folded[i] = fold(folded[i], x[begin + i]);
    });
  }
  const int64_t n = t.size(), kernel = s.kernel[2];
  int64_t kx = 0;
  for (; kx + 1 < kernel; kx += 2) {
    for (int64_t j = 0; j < n; ++j) y[j] = fold(fold(y[j], seen[j * stride + kx]), seen[j * stride + kx + 1]);
  }
  for (; kx < kernel; ++kx) {
    for (int64_t j = 0; j < n; ++j) y[j] = fold(y[j], seen[j * stride + kx]);
  }
}

// best[j] and at[j] of output j of the stretch, by the elements of their windows, in order. best[j] is minus infinity for
// an empty window, too.
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
void IndexStretch(const PoolSize& s, Stride stride, const C* x, const Stretch& t, bool add, C* y, bool add_index,
                  int32_t* index) {
  C best[kChunk];
  int32_t at[kChunk];
  std::fill_n(best, t.size(), Lowest<C>());
  std::fill_n(at, t.size(), -1);
  IsWide(s) ? MaxWindows(s, x, t, best, at) : MaxRuns(s, stride, x, t, best, at);
  ClearEmpty(s, t, best);
  if (y != nullptr) Store(best, t, add, y);
  Store(at, t, add_index, index);
}

template <class C, class Stride>
void MaxStretch(const PoolSize& s, Stride stride, const C* x, const Stretch& t, bool add, C* y) {
  C best[kChunk];
  std::fill_n(best, t.size(), Lowest<C>());
  if (IsWide(s)) {
    int32_t at[kChunk];
    std::fill_n(at, t.size(), -1);
    MaxWindows(s, x, t, best, at);
  } else {
    FoldWindows(s, stride, x, t, Lowest<C>(), Larger<C>(), best);
  }
  ClearEmpty(s, t, best);
  Store(best, t, add, y);
}

// The sum of n elements, of each half by itself: additions to one number wait for each other.
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
void SumStretch(const PoolSize& s, Stride stride, const C* x, const Stretch& t, bool add, C* y) {
  C sums[kChunk];
  std::fill_n(sums, t.size(), C{0});
  if (IsWide(s)) {
    for (int64_t j = 0; j < t.size(); ++j) {
      const Extent cols = WindowExtent(s, 2, t.first + j);
      ForEachRow(s, t, [&](int64_t row) { sums[j] += Sum(x + row + cols.begin, cols.end - cols.begin); });
    }
  } else {
    FoldWindows(s, stride, x, t, C{0}, Plus<C>(), sums);
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

// A last axis that every window takes whole becomes part of the one before it: global pooling, a row of one window.
PoolSize Collapsed(PoolSize s) {
  for (int axis = 0; axis < 2; ++axis) {
    if (s.out[2] != 1 || s.kernel[2] != s.in[2] || s.pad[2] != 0) return s;
    const int64_t n = s.in[2];
    const auto merge = [&](std::array<int64_t, 3>* v, int64_t times, int64_t first) {
      *v = {first, (*v)[0], (*v)[1] * times};
    };
    merge(&s.in, n, 1);
    merge(&s.out, 1, 1);
    merge(&s.kernel, n, 1);
    merge(&s.stride, n, 1);
    merge(&s.pad, n, 0);
  }
  return s;
}

// True where each plane is one window.
bool IsGlobal(const PoolSize& s) {
  return s.out_plane() == 1 && s.kernel == s.in && s.pad == std::array<int64_t, 3>{};
}

// Calls body(plane) for all planes, spread over the threads.
template <class Body>
void ForEachPlane(const OpContext& ctx, const PoolSize& s, const Body& body) {
  const int64_t work = s.out_plane() * s.kernel[0] * s.kernel[1] * s.kernel[2] + 1;
  Parallel(ctx, s.planes, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) body(plane);
  });
}

template <class Body>
void ForEachStretch(const PoolSize& s, const Body& body) {
  const int64_t room = std::max<int64_t>(kSpan - s.kernel[2], 0) / s.stride[2] + 1;
  const int64_t chunk = std::min(kChunk, room);
  for (int64_t row = 0; row < s.out[0] * s.out[1]; ++row) {
    for (int64_t ox = 0; ox < s.out[2]; ox += chunk) {
      body(Stretch{row / s.out[1], row % s.out[1], ox, std::min(ox + chunk, s.out[2]), row * s.out[2] + ox});
    }
  }
}

// run(stride), of a type of its own for the strides that loops should be compiled for.
template <class F>
void WithStride(int64_t stride, const F& run) {
  if (stride == 1) return run(std::integral_constant<int64_t, 1>());
  if (stride == 2) return run(std::integral_constant<int64_t, 2>());
  run(stride);
}

template <class C>
void Forward(const OpContext& ctx, const PoolSize& s, const C* x, OpReqType req, C* y, OpReqType index_req,
             int32_t* index) {
  if (IsDense(s)) {
    return ForEachPlane(ctx, s, [&](int64_t plane) {
      const C* const from = x + plane * s.in_plane();
      C* const to = y == nullptr ? y : y + plane * s.out_plane();
      if (index == nullptr) return DensePlane(s, from, req == kAddTo, to);
      DenseIndexPlane(s, from, req == kAddTo, to, index_req == kAddTo, index + plane * s.out_plane());
    });
  }
  if (s.type != PoolType::kMax && IsGlobal(s)) {
    const C divisor = static_cast<C>(Divisor(s, 0, 0, 0));
    return ForEachPlane(ctx, s, [&](int64_t plane) {
      const C value = Sum(x + plane * s.in_plane(), s.in_plane()) / divisor;
      y[plane] = req == kAddTo ? y[plane] + value : value;
    });
  }
  WithStride(s.stride[2], [&](auto stride) {
    ForEachPlane(ctx, s, [&](int64_t plane) {
      const C* const from = x + plane * s.in_plane();
      C* const to = y == nullptr ? y : y + plane * s.out_plane();
      int32_t* const at = index == nullptr ? index : index + plane * s.out_plane();
      ForEachStretch(s, [&](const Stretch& t) {
        if (at != nullptr) {
          IndexStretch(s, stride, from, t, req == kAddTo, to, index_req == kAddTo, at);
        } else if (s.type == PoolType::kMax) {
          MaxStretch(s, stride, from, t, req == kAddTo, to);
        } else {
          SumStretch(s, stride, from, t, req == kAddTo, to);
        }
      });
    });
  });
}

template <class C>
absl::Status Backward(const OpContext& ctx, const PoolSize& s, const C* dy, const int32_t* index, OpReqType req,
                      C* dx) {
  if (s.type != PoolType::kMax && IsDense(s) && IsDense(Transposed(s))) {
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(s.planes * s.out_plane() * sizeof(C)));
    C* const shares = static_cast<C*>(space);
    ForEachPlane(ctx, s, [&](int64_t plane) {
      C* const share = shares + plane * s.out_plane();
      std::copy_n(dy + plane * s.out_plane(), s.out_plane(), share);
      ForEachStretch(s, [&](const Stretch& t) {
        Divide(s, std::integral_constant<int64_t, 1>(), t, share + t.begin);
      });
      DensePlane(Transposed(s), share, req == kAddTo, dx + plane * s.in_plane());
    });
    return absl::OkStatus();
  }
  if (s.type != PoolType::kMax && IsGlobal(s)) {
    const C divisor = static_cast<C>(Divisor(s, 0, 0, 0));
    ForEachPlane(ctx, s, [&](int64_t plane) {
      C* const to = dx + plane * s.in_plane();
      const C share = dy[plane] / divisor;
      if (req != kAddTo) return (void)std::fill_n(to, s.in_plane(), share);
      for (int64_t i = 0; i < s.in_plane(); ++i) to[i] += share;
    });
    return absl::OkStatus();
  }
  WithStride(s.stride[2], [&](auto stride) {
    ForEachPlane(ctx, s, [&](int64_t plane) {
      const C* const from = dy + plane * s.out_plane();
      C* const to = dx + plane * s.in_plane();
      if (req != kAddTo) std::fill_n(to, s.in_plane(), C{0});
      if (s.type == PoolType::kMax) {
        const int32_t* const at = index + plane * s.out_plane();
        for (int64_t o = 0; o < s.out_plane(); ++o) {
          if (at[o] >= 0) to[at[o]] += from[o];
        }
      } else {
        ForEachStretch(s, [&](const Stretch& t) { SpreadStretch(s, stride, from, t, to); });
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace

template <>
absl::Status PoolForward<cpu>(const OpContext& ctx, const PoolSize& size, const TBlob& x, OpReqType req, const TBlob& y,
                              OpReqType index_req, const TBlob& index) {
  int32_t* const at = size.type == PoolType::kMax && index_req != kNullOp ? index.dptr<int32_t>() : nullptr;
  if (req == kNullOp && at == nullptr) return absl::OkStatus();
  const PoolSize s = Collapsed(size);
  if (x.dtype == DType::kFloat64) {
    Forward(ctx, s, x.dptr<double>(), req, req == kNullOp ? nullptr : y.dptr<double>(), index_req, at);
    return absl::OkStatus();
  }
  if (x.dtype == DType::kFloat32) {
    Forward(ctx, s, x.dptr<float>(), req, req == kNullOp ? nullptr : y.dptr<float>(), index_req, at);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const float* wide_x, Widen(ctx, x.dtype, x.data, x.Size()));
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(y.Size() * sizeof(float)));
  float* wide_y = static_cast<float*>(space);
  Forward(ctx, s, wide_x, kWriteTo, wide_y, index_req, at);
  Narrow(ctx, y.dtype, wide_y, req, y.data, y.Size());
  return absl::OkStatus();
}

template <>
absl::Status PoolBackward<cpu>(const OpContext& ctx, const PoolSize& size, const TBlob& dy, const TBlob& index,
                               OpReqType req, const TBlob& dx) {
  if (req == kNullOp) return absl::OkStatus();
  const int32_t* const at = size.type == PoolType::kMax ? index.dptr<int32_t>() : nullptr;
  const PoolSize s = Collapsed(size);
  if (dy.dtype == DType::kFloat64) {
    return Backward(ctx, s, dy.dptr<double>(), at, req, dx.dptr<double>());
  }
  if (dy.dtype == DType::kFloat32) {
    return Backward(ctx, s, dy.dptr<float>(), at, req, dx.dptr<float>());
  }
  ASSIGN_OR_RETURN(const float* wide_dy, Widen(ctx, dy.dtype, dy.data, dy.Size()));
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(dx.Size() * sizeof(float)));
  float* wide_dx = static_cast<float*>(space);
  RETURN_IF_ERROR(Backward(ctx, s, wide_dy, at, kWriteTo, wide_dx));
  Narrow(ctx, dx.dtype, wide_dx, req, dx.data, dx.Size());
  return absl::OkStatus();
}

}  // namespace gluond::ops
