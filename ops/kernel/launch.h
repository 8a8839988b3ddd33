// Launch: how work reaches the processors. Parallel splits a range over the CPU's compute threads; ForEach calls one
// functor for every index, on either device:
//
//   struct Arange { float* y; HOST_DEVICE void operator()(int64_t i) const { y[i] = i; } };
//   return ForEach<D>(ctx, n, Arange{y});

#ifndef OPS_KERNEL_LAUNCH_H_
#define OPS_KERNEL_LAUNCH_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/host_device.h"
#include "engine/core/op_context.h"

// OpenMP's promise that a loop's iterations may be reordered to add up `var`; nvcc builds no CPU loops.
#ifdef __CUDACC__
#define SIMD_REDUCE(op, var)
#else
#define SIMD_PRAGMA(text) _Pragma(#text)
#define SIMD_REDUCE(op, var) SIMD_PRAGMA(omp simd reduction(op : var))
#endif

namespace gluond::ops {

// Elements that one thread should at least have: below this, waking another costs more than it saves.
inline constexpr int64_t kGrain = 32768;

// Calls body(begin, end) over pieces of [0, n) of at least `grain`; in place when the context has no threads.
template <class Body>
void Parallel(const OpContext& ctx, int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (ctx.threads == nullptr || n <= grain) {
    body(int64_t{0}, n);
  } else {
    ctx.threads->ParallelFor(n, grain, body);
  }
}

#ifdef __CUDACC__

inline constexpr int kBlockThreads = 256;

inline cudaStream_t Stream(const OpContext& ctx) { return static_cast<cudaStream_t>(ctx.stream); }

// Blocks for a grid-stride loop over n > 0 indices.
inline unsigned Blocks(int64_t n) {
  return static_cast<unsigned>(std::min<int64_t>((n + kBlockThreads - 1) / kBlockThreads, int64_t{1} << 20));
}

// The outcome of the launches so far. Errors of the kernels themselves appear when the stream is synchronized.
inline absl::Status Launched() {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("CUDA kernel launch: ", cudaGetErrorString(error)));
}

template <class F>
__global__ void ForEachKernel(int64_t n, F f) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += step) f(i);
}

#endif  // __CUDACC__

// f(i) for i in [0, n). The calls must not write what others read. `grain` as for Parallel.
template <class D, class F>
absl::Status ForEach(const OpContext& ctx, int64_t n, F f, int64_t grain = kGrain) {
  if (n <= 0) return absl::OkStatus();
  if constexpr (std::is_same_v<D, cpu>) {
    Parallel(ctx, n, grain, [&f](int64_t begin, int64_t end) {
      const F local = f;  // So that its members stay in registers.
      for (int64_t i = begin; i < end; ++i) local(i);
    });
    return absl::OkStatus();
  } else {
#ifdef __CUDACC__
    ForEachKernel<<<Blocks(n), kBlockThreads, 0, Stream(ctx)>>>(n, f);
    return Launched();
#else
    static_assert(sizeof(D) == 0, "FCompute<gpu> is built by nvcc");
#endif
  }
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_LAUNCH_H_
