// Rows on a GPU: a warp for each.

namespace gluond::ops {

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
  // True for the one thread that writes a row's single values.
  __device__ bool first() const { return lane == 0; }
};

template <class F>
__global__ void ForEachGroupKernel(int64_t rows, F f) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x / 32;
  for (int64_t row = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) / 32; row < rows; row += step) {
    f(WarpGroup{static_cast<int>(threadIdx.x % 32)}, row);
  }
}

template <class F>
absl::Status ForEachGroupOn(gpu, const OpContext& ctx, int64_t rows, int64_t /*n*/, const F& f) {
  return Launch(ctx, ForEachGroupKernel<F>, Blocks(rows * 32), kBlockThreads, rows, f);
}

namespace rows_internal {

template <class C, class F, size_t... k>
absl::Status Run(gpu, const OpContext& ctx, const RowGeometry& rows, const F& f, const TBlob* x, OpReqType req, const TBlob& y,
                 std::index_sequence<k...>) {
  return ForEachGroupOn(gpu(), ctx, rows.rows(), rows.n, StridedRow<C, F, k...>{f, rows, {In<C>(x[k])...}, Out<C>(y, req)});
}

}  // namespace rows_internal

}  // namespace gluond::ops
