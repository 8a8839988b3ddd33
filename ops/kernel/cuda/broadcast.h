// Broadcast on a GPU: an element of the walk at a time. Map, for equal shapes, would not be faster.

namespace gluond::ops::broadcast_internal {

template <class C, class F>
__global__ void Kernel(Walk<2> walk, F f, In<C> a, In<C> b, Out<C> y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < walk.size; i += step) {
    const auto offset = walk(i);
    y.Set(i, f(a[offset.at[0]], b[offset.at[1]]));
  }
}

template <class C, class F>
absl::Status Run(gpu, const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y) {
  const Walk<2> walk = BroadcastWalk(x, y.shape);
  return Launch(ctx, Kernel<C, F>, Blocks(walk.size), kBlockThreads, walk, f, In<C>(x[0]), In<C>(x[1]), Out<C>(y, req));
}

}  // namespace gluond::ops::broadcast_internal
