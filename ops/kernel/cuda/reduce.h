// Reduce on a GPU: by blocks and warps.

namespace gluond::ops::reduce_internal {

template <class A, class R>
__device__ A CombineWarp(const R& r, A acc) {
  for (int step = 16; step > 0; step /= 2) acc = r.Combine(acc, __shfl_xor_sync(~0u, acc, step));
  return acc;
}

// One block for one output: its threads walk along the reduced elements `piece` apart by blockIdx.y.
template <class A, class R>
__device__ A CombineBlock(const R& r, A acc) {
  __shared__ A warps[kBlockThreads / 32];
  acc = CombineWarp(r, acc);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x < 32) {
    acc = CombineWarp(r, threadIdx.x < kBlockThreads / 32 ? warps[threadIdx.x] : r.template Init<A>());
  }
  __syncthreads();
  return acc;
}

template <class C, class R>
__global__ void InnerReducedKernel(ReduceWalk walk, R r, In<C> x, Out<C> y) {
  for (int64_t o = blockIdx.x; o < walk.kept.size; o += gridDim.x) {
    const int64_t base = walk.kept(o).at[0];
    C acc = r.template Init<C>();
    for (int64_t i = threadIdx.x; i < walk.reduced.size; i += blockDim.x) {
      acc = r.Combine(acc, r.Map(x[base + walk.reduced(i).at[0]]));
    }
    acc = blockDim.x == 32 ? CombineWarp(r, acc) : CombineBlock(r, acc);
    if (threadIdx.x == 0) y.Set(o, r.Final(acc, walk.reduced.size));
  }
}

// Reduces everything into one output: each block leaves a partial result, and the last kernel combines those.
template <class C, class R>
__global__ void PartialKernel(int64_t n, R r, In<C> x, C* partial) {
  C acc = r.template Init<C>();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += step) acc = r.Combine(acc, r.Map(x[i]));
  acc = CombineBlock(r, acc);
  if (threadIdx.x == 0) partial[blockIdx.x] = acc;
}
template <class C, class R>
__global__ void CombineKernel(int64_t n, R r, const C* partial, int pieces, Out<C> y) {
  C acc = r.template Init<C>();
  for (int i = threadIdx.x; i < pieces; i += blockDim.x) acc = r.Combine(acc, partial[i]);
  acc = CombineBlock(r, acc);
  if (threadIdx.x == 0) y.Set(0, r.Final(acc, n));
}

// 32 neighbouring outputs by 8 shares of their elements, so that a warp reads what lies together.
template <class C, class R>
__global__ void InnerKeptKernel(ReduceWalk walk, R r, In<C> x, Out<C> y) {
  __shared__ C share[8][32];
  const int column = threadIdx.x % 32, part = threadIdx.x / 32;
  for (int64_t first = blockIdx.x * int64_t{32}; first < walk.kept.size; first += int64_t{gridDim.x} * 32) {
    const int64_t o = first + column;
    C acc = r.template Init<C>();
    if (o < walk.kept.size) {
      const int64_t base = walk.kept(o).at[0];
      for (int64_t i = part; i < walk.reduced.size; i += 8) {
        acc = r.Combine(acc, r.Map(x[base + walk.reduced(i).at[0]]));
      }
    }
    share[part][column] = acc;
    __syncthreads();
    if (part == 0 && o < walk.kept.size) {
      for (int p = 1; p < 8; ++p) acc = r.Combine(acc, share[p][column]);
      y.Set(o, r.Final(acc, walk.reduced.size));
    }
    __syncthreads();
  }
}

template <class C, class R>
absl::Status Run(gpu, const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, OpReqType req,
                 const TBlob& y) {
  const auto grid = [](int64_t blocks) { return static_cast<unsigned>(std::min<int64_t>(blocks, int64_t{1} << 20)); };
  const int64_t outputs = walk.kept.size, count = walk.reduced.size;
  if (outputs == 1 && count >= (1 << 16)) {
    constexpr int kPieces = 512;
    ASSIGN_OR_RETURN(void* const scratch, ctx.scratch->Get(kPieces * sizeof(C)));
    C* const partial = static_cast<C*>(scratch);
    RETURN_IF_ERROR(Launch(ctx, PartialKernel<C, R>, kPieces, kBlockThreads, count, r, In<C>(x), partial));
    return Launch(ctx, CombineKernel<C, R>, 1, kBlockThreads, count, r, partial, kPieces, Out<C>(y, req));
  }
  if (walk.inner_reduced) {
    const int threads = count <= 1024 ? 32 : kBlockThreads;
    return Launch(ctx, InnerReducedKernel<C, R>, grid(outputs), threads, walk, r, In<C>(x), Out<C>(y, req));
  }
  return Launch(ctx, InnerKeptKernel<C, R>, grid((outputs + 31) / 32), kBlockThreads, walk, r, In<C>(x), Out<C>(y, req));
}

}  // namespace gluond::ops::reduce_internal
