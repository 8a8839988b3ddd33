// Map on a GPU: an element at a time.

namespace gluond::ops::map_internal {

template <class C, class F, class... X>
__global__ void MapKernel(int64_t n, F f, Out<C> y, X... x) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += step) y.Set(i, f(x[i]...));
}

template <class C, size_t>
using InOf = In<C>;

template <class C, class F, size_t... k>
absl::Status Run(gpu, const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y,
                 std::index_sequence<k...>) {
  const int64_t n = y.Size();
  return Launch(ctx, MapKernel<C, F, InOf<C, k>...>, Blocks(n), kBlockThreads, n, f, Out<C>(y, req),
                In<C>(x[k])...);
}

}  // namespace gluond::ops::map_internal
