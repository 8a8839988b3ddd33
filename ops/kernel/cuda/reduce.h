// Reduce on a GPU: by blocks and warps. Where there are few outputs of many elements each, blocks share an output: each
// leaves a partial result for its piece of the elements, and a last kernel combines those.

namespace gluond::ops::reduce_internal {

template <class A, class R>
__device__ A CombineWarp(const R& r, A acc) {
  for (int step = 16; step > 0; step /= 2) acc = r.Combine(acc, __shfl_xor_sync(~0u, acc, step));
  return acc;
}

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

// A block's results go to y; or, of piece blockIdx.y, to a row of `partial`, which has a column for each output.
template <class C>
struct Destination {
  Out<C> y;
  C* partial;

  template <class R>
  __device__ void Set(const ReduceWalk& walk, const R& r, int64_t o, C acc) const {
    if (partial == nullptr) {
      y.Set(o, r.Final(acc, walk.reduced.size));
    } else {
      partial[blockIdx.y * walk.kept.size + o] = acc;
    }
  }
};

// A block for an output.
template <class C, class R>
__global__ void InnerReducedKernel(ReduceWalk walk, R r, In<C> x, Destination<C> to) {
  const PieceOf piece(walk.reduced.size);
  for (int64_t o = blockIdx.x; o < walk.kept.size; o += gridDim.x) {
    const int64_t base = walk.kept(o).at[0];
    C acc = r.template Init<C>();
    for (int64_t i = piece.begin + threadIdx.x; i < piece.end; i += blockDim.x) {
      acc = r.Combine(acc, r.Map(x[base + walk.reduced(i).at[0]]));
    }
    acc = blockDim.x == 32 ? CombineWarp(r, acc) : CombineBlock(r, acc);
    if (threadIdx.x == 0) to.Set(walk, r, o, acc);
  }
}

// 32 neighbouring outputs by 8 shares of their elements, so that a warp reads what lies together.
template <class C, class R>
__global__ void InnerKeptKernel(ReduceWalk walk, R r, In<C> x, Destination<C> to) {
  __shared__ C share[8][32];
  const PieceOf piece(walk.reduced.size);
  const int column = threadIdx.x % 32, part = threadIdx.x / 32;
  for (int64_t first = blockIdx.x * int64_t{32}; first < walk.kept.size; first += int64_t{gridDim.x} * 32) {
    const int64_t o = first + column;
    C acc = r.template Init<C>();
    if (o < walk.kept.size) {
      const int64_t base = walk.kept(o).at[0];
      for (int64_t i = piece.begin + part; i < piece.end; i += 8) {
        acc = r.Combine(acc, r.Map(x[base + walk.reduced(i).at[0]]));
      }
    }
    share[part][column] = acc;
    __syncthreads();
    if (part == 0 && o < walk.kept.size) {
      for (int p = 1; p < 8; ++p) acc = r.Combine(acc, share[p][column]);
      to.Set(walk, r, o, acc);
    }
    __syncthreads();
  }
}

// A warp for an output, over its pieces.
template <class C, class R>
__global__ void CombineKernel(ReduceWalk walk, R r, const C* partial, unsigned pieces, Out<C> y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x / 32;
  for (int64_t o = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) / 32; o < walk.kept.size; o += step) {
    C acc = r.template Init<C>();
    for (unsigned p = threadIdx.x % 32; p < pieces; p += 32) acc = r.Combine(acc, partial[p * walk.kept.size + o]);
    acc = CombineWarp(r, acc);
    if (threadIdx.x % 32 == 0) y.Set(o, r.Final(acc, walk.reduced.size));
  }
}

template <class C, class R>
absl::Status Run(gpu, const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, OpReqType req, const TBlob& y) {
  const int64_t outputs = walk.kept.size, count = walk.reduced.size;
  const auto kernel = walk.inner_reduced ? InnerReducedKernel<C, R> : InnerKeptKernel<C, R>;
  const int threads = walk.inner_reduced && count <= 1024 ? 32 : kBlockThreads;
  // A block reads at least `least` elements of an output, for otherwise the second launch costs more than the pieces save.
  const int64_t least = walk.inner_reduced ? 2048 : 64, blocks = walk.inner_reduced ? outputs : (outputs + 31) / 32;
  const dim3 grid = Grid(blocks, count / least);
  Destination<C> to = {Out<C>(y, req), nullptr};
  if (grid.y == 1) return Launch(ctx, kernel, grid, threads, walk, r, In<C>(x), to);
  ASSIGN_OR_RETURN(void* const scratch, ctx.scratch->Get(grid.y * static_cast<size_t>(outputs) * sizeof(C)));
  to.partial = static_cast<C*>(scratch);
  RETURN_IF_ERROR(Launch(ctx, kernel, grid, threads, walk, r, In<C>(x), to));
  return Launch(ctx, CombineKernel<C, R>, Blocks(outputs * 32), kBlockThreads, walk, r, to.partial, grid.y, to.y);
}

}  // namespace gluond::ops::reduce_internal
