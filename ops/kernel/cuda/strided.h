// Strided copies on a GPU: an element of the walk at a time.

namespace gluond::ops {
namespace {

template <class T>
__global__ void CopyKernel(Walk<2> walk, const T* x, T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < walk.size; i += step) {
    const auto offset = walk(i);
    y[offset.at[1]] = x[offset.at[0]];
  }
}

template <class C>
__global__ void ScaleKernel(Walk<2> walk, In<C> x, int64_t x_offset, C scale, Out<C> y, int64_t y_offset) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < walk.size; i += step) {
    const auto offset = walk(i);
    y.Set(y_offset + offset.at[1], x[x_offset + offset.at[0]] * scale);
  }
}

template <class T>
absl::Status CopyWalk(gpu, const OpContext& ctx, const Walk<2>& walk, const T* x, T* y) {
  return Launch(ctx, CopyKernel<T>, Blocks(walk.size), kBlockThreads, walk, x, y);
}

template <class C>
absl::Status ScaleWalk(gpu, const OpContext& ctx, const Walk<2>& walk, const StridedCopy& copy, const In<C>& x,
                       const Out<C>& y) {
  return Launch(ctx, ScaleKernel<C>, Blocks(walk.size), kBlockThreads, walk, x, copy.x_offset, Convert<C>(copy.scale), y,
                copy.y_offset);
}

}  // namespace
}  // namespace gluond::ops
