// Rows: an operator that treats each row (the elements along one axis) as a whole, from one functor. A row is done by
// a Group: one thread on a CPU, one warp on a GPU. The functor says what the row needs, not who computes it:
//
//   struct Softmax {
//     template <class Group, class X, class Y>
//     HOST_DEVICE void operator()(Group g, X x, Y y, int64_t n) const {
//       const auto max = g.Max(n, [&](int64_t i) { return x[i]; });
//       const auto sum = g.Sum(n, [&](int64_t i) { return math::Exp(x[i] - max); });
//       g.ForEach(n, [&](int64_t i) { y.Set(i, math::Exp(x[i] - max) / sum); });
//     }
//   };
//   ... Rows<D, 1>(ctx, RowsOf(x[0].shape, axis), Softmax{}, x.data(), req[0], y[0])
//
// x[i] and Set take float or double, whatever the tensors hold: see convert.h. With several inputs the functor gets
// (g, x0, x1, ..., y, n). ForEachGroup is the layer below, for what does not fit: it hands out row numbers only.

#ifndef OPS_KERNEL_ROWS_H_
#define OPS_KERNEL_ROWS_H_

#include <limits>

#include "ops/kernel/map.h"
#include "ops/kernel/row_geometry.h"

namespace gluond::ops {

// One thread. Sums are added up in float by blocks, and the blocks in double.
struct CpuGroup {
  template <class F>
  auto Sum(int64_t n, const F& f) const {
    using C = decltype(f(0));
    constexpr int64_t kBlock = 1024;
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t end = std::min(n, begin + kBlock);
      C sum = 0;
      SIMD_REDUCE(+, sum)
      for (int64_t i = begin; i < end; ++i) sum += f(i);
      total += sum;
    }
    return static_cast<C>(total);
  }
  // Minus infinity of no elements.
  template <class F>
  auto Max(int64_t n, const F& f) const {
    using C = decltype(f(0));
    C max = -std::numeric_limits<C>::infinity();
    SIMD_REDUCE(max, max)
    for (int64_t i = 0; i < n; ++i) {
      const C v = f(i);
      max = v > max ? v : max;
    }
    return max;
  }
  // combine(...combine(init, f(0))..., f(n - 1)), in any order. State: trivially copyable, whole 32-bit words.
  template <class State, class F, class Combine>
  State Reduce(int64_t n, State init, const F& f, const Combine& combine) const {
    for (int64_t i = 0; i < n; ++i) init = combine(init, f(i));
    return init;
  }
  template <class F>
  void ForEach(int64_t n, const F& f) const {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) f(i);
  }
  bool first() const { return true; }
};

#ifdef GLUOND_GPU

// The 32 threads of a warp, in step. Every thread gets the result.
struct WarpGroup {
  int lane;

  // The value of the thread `step` away.
  template <class State>
  __device__ static State Exchange(State v, int step) {
    static_assert(sizeof(State) % sizeof(uint32_t) == 0);
    uint32_t words[sizeof(State) / sizeof(uint32_t)];
    memcpy(words, &v, sizeof(v));
    for (uint32_t& word : words) word = __shfl_xor_sync(~0u, word, step);
    memcpy(&v, words, sizeof(v));
    return v;
  }

  template <class F>
  __device__ auto Sum(int64_t n, const F& f) const {
    using C = decltype(f(0));
    C sum = 0;
    for (int64_t i = lane; i < n; i += 32) sum += f(i);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    return sum;
  }
  template <class F>
  __device__ auto Max(int64_t n, const F& f) const {
    using C = decltype(f(0));
    C max = -std::numeric_limits<C>::infinity();
    for (int64_t i = lane; i < n; i += 32) {
      const C v = f(i);
      max = v > max ? v : max;
    }
    for (int step = 16; step > 0; step /= 2) {
      const C other = __shfl_xor_sync(~0u, max, step);
      max = other > max ? other : max;
    }
    return max;
  }
  template <class State, class F, class Combine>
  __device__ State Reduce(int64_t n, State init, const F& f, const Combine& combine) const {
    for (int64_t i = lane; i < n; i += 32) init = combine(init, f(i));
    for (int step = 16; step > 0; step /= 2) init = combine(init, Exchange(init, step));
    return init;
  }
  template <class F>
  __device__ void ForEach(int64_t n, const F& f) const {
    for (int64_t i = lane; i < n; i += 32) f(i);
    __syncwarp();
  }
  // True for the one thread that writes what the row has once.
  __device__ bool first() const { return lane == 0; }
};

template <class F>
__global__ void ForEachGroupKernel(int64_t rows, F f) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x / 32;
  for (int64_t row = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) / 32; row < rows; row += step) {
    f(WarpGroup{static_cast<int>(threadIdx.x % 32)}, row);
  }
}

#endif  // GLUOND_GPU

// f(group, row) for row in [0, rows); `n`, the work in one row, decides how rows are shared out.
template <class D, class F>
absl::Status ForEachGroup(const OpContext& ctx, int64_t rows, int64_t n, F f) {
  if (rows == 0) return absl::OkStatus();
  if constexpr (std::is_same_v<D, cpu>) {
    Parallel(ctx, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n)), [&f](int64_t begin, int64_t end) {
      const F local = f;
      for (int64_t row = begin; row < end; ++row) local(CpuGroup(), row);
    });
    return absl::OkStatus();
  } else {
#ifdef GLUOND_GPU
    return Launch(ctx, ForEachGroupKernel<F>, Blocks(rows * 32), kBlockThreads, rows, f);
#endif
  }
}

namespace rows_internal {

// One row of a tensor: element i lies at begin + i * stride.
template <class C>
struct RowIn {
  In<C> x;
  int64_t begin, stride;
  HOST_DEVICE C operator[](int64_t i) const { return x[begin + i * stride]; }
};
template <class C>
struct RowOut {
  Out<C> y;
  int64_t begin, stride;
  HOST_DEVICE void Set(int64_t i, C v) const { y.Set(begin + i * stride, v); }
};

// Rows that lie together and hold what is computed in, as plain pointers that g++ can vectorize over.
template <class C>
struct DenseOut {
  C* y;
  void Set(int64_t i, C v) const { y[i] = v; }
};

template <class C, class F, size_t... k>
struct StridedRow {
  F f;
  RowGeometry rows;
  In<C> x[sizeof...(k)];
  Out<C> y;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t begin = rows.begin(row);
    f(g, RowIn<C>{x[k], begin, rows.inner}..., RowOut<C>{y, begin, rows.inner}, rows.n);
  }
};

template <class C, class F, size_t... k>
struct DenseRow {
  F f;
  int64_t n;
  const C* x[sizeof...(k)];
  C* y;

  void operator()(CpuGroup g, int64_t row) const {
    const int64_t begin = row * n;
    f(g, x[k] + begin..., DenseOut<C>{y + begin}, n);
  }
};

template <class D, class C, class F, size_t... k>
absl::Status Run(const OpContext& ctx, const RowGeometry& rows, const F& f, const TBlob* x, OpReqType req,
                 const TBlob& y, std::index_sequence<k...>) {
  if constexpr (std::is_same_v<D, cpu>) {
    if (rows.inner == 1 && req != kAddTo && y.dtype == DTypeOf<C> && (... && (x[k].dtype == DTypeOf<C>))) {
      return ForEachGroup<D>(ctx, rows.rows(), rows.n, DenseRow<C, F, k...>{
          f, rows.n, {static_cast<const C*>(x[k].data)...}, static_cast<C*>(y.data)});
    }
  }
  return ForEachGroup<D>(ctx, rows.rows(), rows.n,
                         StridedRow<C, F, k...>{f, rows, {In<C>(x[k])...}, Out<C>(y, req)});
}

}  // namespace rows_internal

// f over every row of `inputs` inputs and one output of equal shape. y may be one of the inputs when f reads x[i] for
// the last time before it sets y[i].
template <class D, int inputs, class F>
absl::Status Rows(const OpContext& ctx, const RowGeometry& rows, const F& f, const TBlob* x, OpReqType req,
                  const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  return DispatchReal(y.dtype, [&](auto c) {
    return rows_internal::Run<D, decltype(c)>(ctx, rows, f, x, req, y, std::make_index_sequence<inputs>());
  });
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_ROWS_H_
