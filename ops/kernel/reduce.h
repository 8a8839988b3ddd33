// Reduce: y = combine of f(x) over a set of axes, on either device.
//
//   struct SumOf : SumReducer {
//     template <class A> HOST_DEVICE A Map(A x) const { return x; }
//   };
//   Reduce<D>(ctx, axes, SumOf(), x, req, y)
//
// A reducer has Init<A>(), Map(A x), Combine(A, A), Final(A, count), and kReal: whether integers, too, are reduced as
// floating point. A is double for floating point on a CPU (float
// or double on a GPU) and int64_t for integers. The order of combining depends on the shape alone, so that the bits do
// not depend on the number of threads.

#ifndef OPS_KERNEL_REDUCE_H_
#define OPS_KERNEL_REDUCE_H_

#include <limits>

#include "engine/core/device.h"
#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/walk.h"

namespace gluond::ops {

// Defaults of a sum; others override them.
struct SumReducer {
  static constexpr bool kReal = false;
  template <class A> HOST_DEVICE static A Init() { return A(0); }
  template <class A> HOST_DEVICE static A Map(A x) { return x; }
  template <class A> HOST_DEVICE static A Combine(A a, A b) { return WrappingAdd(a, b); }
  template <class A> HOST_DEVICE static A Final(A a, int64_t /*count*/) { return a; }
};

// Which axes of x are reduced; the rest, in order, are y's.
struct ReduceWalk {
  Walk<1> kept, reduced;
  // True when x's innermost axis is a reduced one.
  bool inner_reduced = true;

  ReduceWalk() = default;
  ReduceWalk(const Shape& x, uint32_t axes) {
    Strides strides;
    DenseStrides(x, strides);
    for (int axis = 0; axis < x.ndim(); ++axis) Append(x[axis], strides[axis], axes >> axis & 1);
  }

  // Adds an axis inside the others. Requires: together they are a dense tensor.
  void Append(int64_t n, int64_t stride, bool is_reduced) {
    (is_reduced ? reduced : kept).Append(n, {stride});
    if (n != 1) inner_reduced = is_reduced;
  }
};

namespace reduce_internal {

template <class C>
using CpuAcc = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

// The axis that vectors run along, in tiles.
template <class C, class Body>
void ForTiles(const TBlob& x, int64_t begin, int64_t n, const Body& body) {
  alignas(64) C buffer[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t count = std::min(kTile, n - i);
    if (x.dtype == DTypeOf<C>) {
      body(i, count, static_cast<const C*>(x.data) + begin + i);
    } else {
      LoadTile(x, begin + i, count, buffer);
      body(i, count, static_cast<const C*>(buffer));
    }
  }
}

// Elements [0, n) from `begin` on, into `acc`, by eight lanes.
template <class C, class R>
CpuAcc<C> Contiguous(const R& r, const TBlob& x, int64_t begin, int64_t n, CpuAcc<C> acc) {
  using A = CpuAcc<C>;
  constexpr int kLanes = 8;
  A lanes[kLanes];
  for (A& lane : lanes) lane = r.template Init<A>();
  ForTiles<C>(x, begin, n, [&](int64_t, int64_t count, const C* in) {
    int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = r.Combine(lanes[k], r.Map(static_cast<A>(in[j + k])));
    }
    for (; j < count; ++j) lanes[0] = r.Combine(lanes[0], r.Map(static_cast<A>(in[j])));
  });
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int k = 0; k < step; ++k) lanes[k] = r.Combine(lanes[k], lanes[k + step]);
  }
  return r.Combine(acc, lanes[0]);
}

// One output after the other, each along x's innermost axis.
template <class C, class R>
void InnerReduced(const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, const Out<C>& y) {
  using A = CpuAcc<C>;
  const int64_t n = walk.reduced.row_size(), rows = walk.reduced.rows();
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, walk.reduced.size));
  constexpr int64_t kPieces = 64;
  if (walk.kept.size == 1 && rows == 1 && n >= kPieces * 2 * kTile) {
    A partial[kPieces];
    const int64_t piece = (n + kPieces - 1) / kPieces;
    Parallel(ctx, kPieces, std::max<int64_t>(1, kGrain / piece), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t from = std::min(n, p * piece);
        partial[p] = Contiguous<C>(r, x, from, std::min(piece, n - from), r.template Init<A>());
      }
    });
    A acc = r.template Init<A>();
    for (A p : partial) acc = r.Combine(acc, p);
    y.Set(0, Convert<C>(r.Final(acc, n)));
    return;
  }
  Parallel(ctx, walk.kept.size, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t base = walk.kept(o).at[0];
      A acc = r.template Init<A>();
      for (int64_t row = 0; row < rows; ++row) {
        acc = Contiguous<C>(r, x, base + walk.reduced.Row(row).at[0], n, acc);
      }
      y.Set(o, Convert<C>(r.Final(acc, walk.reduced.size)));
    }
  });
}

// A tile of outputs at a time, as x's innermost axis is kept.
template <class C, class R>
void InnerKept(const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, OpReqType req,
               const TBlob& y) {
  using A = CpuAcc<C>;
  const int64_t n = walk.kept.row_size(), tiles = (n + kTile - 1) / kTile, count = walk.reduced.size;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, count * std::min(n, kTile)));
  Parallel(ctx, walk.kept.rows() * tiles, grain, [&](int64_t begin, int64_t end) {
    alignas(64) A acc[kTile];
    alignas(64) C result[kTile];
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = t / tiles, from = t % tiles * kTile, width = std::min(kTile, n - from);
      const int64_t base = walk.kept.Row(row).at[0] + from;
      std::fill_n(acc, width, r.template Init<A>());
      for (int64_t k = 0; k < count; ++k) {
        ForTiles<C>(x, base + walk.reduced(k).at[0], width, [&](int64_t, int64_t w, const C* in) {
          for (int64_t j = 0; j < w; ++j) acc[j] = r.Combine(acc[j], r.Map(static_cast<A>(in[j])));
        });
      }
      for (int64_t j = 0; j < width; ++j) result[j] = Convert<C>(r.Final(acc[j], count));
      StoreTile(y, req, row * n + from, width, result);
    }
  });
}

#ifdef GLUOND_GPU

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

// Everything into one: each block leaves a partial result, and the last kernel combines those.
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
absl::Status ReduceOnGpu(const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, OpReqType req,
                         const TBlob& y) {
  const auto grid = [](int64_t blocks) { return static_cast<unsigned>(std::min<int64_t>(blocks, int64_t{1} << 20)); };
  const int64_t outputs = walk.kept.size, count = walk.reduced.size;
  if (outputs == 1 && count >= (1 << 16)) {
    constexpr int kPieces = 512;
    absl::StatusOr<void*> scratch = ctx.scratch->Get(kPieces * sizeof(C));
    if (!scratch.ok()) return scratch.status();
    C* partial = static_cast<C*>(*scratch);
    const absl::Status launched =
        Launch(ctx, PartialKernel<C, R>, kPieces, kBlockThreads, count, r, In<C>(x), partial);
    if (!launched.ok()) return launched;
    return Launch(ctx, CombineKernel<C, R>, 1, kBlockThreads, count, r, partial, kPieces, Out<C>(y, req));
  }
  if (walk.inner_reduced) {
    const int threads = count <= 1024 ? 32 : kBlockThreads;
    return Launch(ctx, InnerReducedKernel<C, R>, grid(outputs), threads, walk, r, In<C>(x), Out<C>(y, req));
  }
  return Launch(ctx, InnerKeptKernel<C, R>, grid((outputs + 31) / 32), kBlockThreads, walk, r, In<C>(x), Out<C>(y, req));
}

#endif  // GLUOND_GPU

}  // namespace reduce_internal

// Requires: y has x's kept axes in order, whatever axes of size 1 its shape shows beside them. Of no elements:
// Final(Init(), 0).
template <class D, class R>
absl::Status Reduce(const OpContext& ctx, const ReduceWalk& walk, const R& r, const TBlob& x, OpReqType req,
                    const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  const auto run = [&](auto c) -> absl::Status {
    using C = decltype(c);
    if constexpr (std::is_same_v<D, cpu>) {
      if (walk.inner_reduced) {
        reduce_internal::InnerReduced<C>(ctx, walk, r, x, Out<C>(y, req));
      } else {
        reduce_internal::InnerKept<C>(ctx, walk, r, x, req, y);
      }
      return absl::OkStatus();
    } else {
#ifdef GLUOND_GPU
      return reduce_internal::ReduceOnGpu<C>(ctx, walk, r, x, req, y);
#endif
    }
  };
  if constexpr (R::kReal) {
    return DispatchReal(x.dtype, run);
  } else {
    return DispatchCompute(x.dtype, run);
  }
}

// `axes` has bit i set when axis i of x is reduced.
template <class D, class R>
absl::Status Reduce(const OpContext& ctx, uint32_t axes, const R& r, const TBlob& x, OpReqType req, const TBlob& y) {
  return Reduce<D>(ctx, ReduceWalk(x.shape, axes), r, x, req, y);
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_REDUCE_H_
