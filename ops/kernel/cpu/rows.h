// Rows on a CPU: a thread for each.

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
  // Minus infinity where there are no elements.
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

template <class F>
absl::Status ForEachGroupOn(cpu, const OpContext& ctx, int64_t rows, int64_t n, const F& f) {
  Parallel(ctx, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n)), [&f](int64_t begin, int64_t end) {
    const F local = f;
    for (int64_t row = begin; row < end; ++row) local(CpuGroup(), row);
  });
  return absl::OkStatus();
}

namespace rows_internal {

// Rows that lie together and hold the type that is computed in, as plain pointers that g++ can vectorize over.
template <class C>
struct DenseOut {
  C* y;
  void Set(int64_t i, C v) const { y[i] = v; }
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

template <class C, class F, size_t... k>
absl::Status Run(cpu, const OpContext& ctx, const RowGeometry& rows, const F& f, const TBlob* x, OpReqType req, const TBlob& y,
                 std::index_sequence<k...>) {
  if (rows.inner == 1 && req != kAddTo && y.dtype == DTypeOf<C> && (... && (x[k].dtype == DTypeOf<C>))) {
    return ForEachGroupOn(cpu(), ctx, rows.rows(), rows.n,
                          DenseRow<C, F, k...>{f, rows.n, {static_cast<const C*>(x[k].data)...}, static_cast<C*>(y.data)});
  }
  return ForEachGroupOn(cpu(), ctx, rows.rows(), rows.n, StridedRow<C, F, k...>{f, rows, {In<C>(x[k])...}, Out<C>(y, req)});
}

}  // namespace rows_internal

}  // namespace gluond::ops
