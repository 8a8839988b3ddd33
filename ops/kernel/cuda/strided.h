// Strided copies on a GPU: 16 bytes at a time where they lie together on both sides, else an element of the walk.

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

// The walk over packs of T, or one of size 0 where not all lie together.
template <class T>
Walk<2> OverPacks(Walk<2> walk, const T* x, const T* y) {
  constexpr int64_t kSize = Pack<T>::kSize;
  const int inner = walk.ndim - 1;
  bool together = IsAligned(x) && IsAligned(y) && walk.ndim > 0 && walk.dim[inner] % kSize == 0;
  for (int t = 0; t < 2 && together; ++t) {
    together = walk.stride[t][inner] == 1;
    for (int axis = 0; axis < inner; ++axis) {
      together = together && walk.stride[t][axis] % kSize == 0;
      walk.stride[t][axis] /= kSize;
    }
  }
  if (together) walk.dim[inner] /= kSize;
  walk.size = together ? walk.size / kSize : 0;
  return walk;
}

template <class T>
absl::Status CopyWalk(gpu, const OpContext& ctx, const Walk<2>& walk, const T* x, T* y) {
  if (const Walk<2> packs = OverPacks(walk, x, y); packs.size > 0) {
    return Launch(ctx, CopyKernel<Pack<uint64_t>>, Blocks(packs.size), kBlockThreads, packs,
                  reinterpret_cast<const Pack<uint64_t>*>(x), reinterpret_cast<Pack<uint64_t>*>(y));
  }
  return Launch(ctx, CopyKernel<T>, Blocks(walk.size), kBlockThreads, walk, x, y);
}

template <class C>
absl::Status ScaleWalk(gpu, const OpContext& ctx, const Walk<2>& walk, const StridedCopy& copy, const In<C>& x, const Out<C>& y) {
  return Launch(ctx, ScaleKernel<C>, Blocks(walk.size), kBlockThreads, walk, x, copy.x_offset, Convert<C>(copy.scale), y,
                copy.y_offset);
}

}  // namespace
}  // namespace gluond::ops
