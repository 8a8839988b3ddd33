// Launch: how work reaches the processors. Parallel splits a range over the CPU's compute threads; ForEach calls one
// functor for every index, on either device:
//
//   struct Arange { float* y; HOST_DEVICE void operator()(int64_t i) const { y[i] = i; } };
//   return ForEach<D>(ctx, n, Arange{y});

#ifndef OPS_KERNEL_LAUNCH_H_
#define OPS_KERNEL_LAUNCH_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/host_device.h"
#include "engine/core/op_context.h"

// OpenMP's promise that a loop's iterations may be reordered to add up `var`; nvcc builds no CPU loops.
#ifdef GLUOND_GPU
#define SIMD_REDUCE(op, var)
#else
#define SIMD_PRAGMA(text) _Pragma(#text)
#define SIMD_REDUCE(op, var) SIMD_PRAGMA(omp simd reduction(op : var))
#endif

namespace gluond::ops {

// Elements that one thread should at least have: below this, waking another costs more than it saves.
inline constexpr int64_t kGrain = 32768;

// Calls body(begin, end) over pieces of [0, n) of at least `grain`, at most `most` at a time; in place when the context has
// no threads.
template <class Body>
void Parallel(const OpContext& ctx, int64_t n, int64_t grain, const Body& body,
              int most = std::numeric_limits<int>::max()) {
  if (n <= 0) return;
  if (ctx.threads == nullptr || n <= grain) {
    body(int64_t{0}, n);
  } else {
    ctx.threads->ParallelFor(n, grain, body, most);
  }
}

#ifdef GLUOND_GPU

inline constexpr int kBlockThreads = 256;

// What a call of CUDA returned. A failure is taken from the thread's state, so that no later call is blamed for it.
inline absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  const std::string message = absl::StrCat(what, ": CUDA: ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

// The context's stream. Its device becomes the thread's current one, as CUDA refuses kernels on a stream of another, and
// whoever used the thread before may have chosen another.
inline cudaStream_t Stream(const OpContext& ctx) {
  (void)cudaSetDevice(ctx.device.id);  // What fails here fails again when the stream is used.
  return static_cast<cudaStream_t>(ctx.stream);
}

// Blocks for a grid-stride loop over n > 0 indices.
inline unsigned Blocks(int64_t n) {
  return static_cast<unsigned>(std::min<int64_t>((n + kBlockThreads - 1) / kBlockThreads, int64_t{1} << 20));
}

// Puts kernel(args...) on the context's stream. Errors of the kernel itself appear when the stream is synchronized.
template <class... P, class... A>
absl::Status Launch(const OpContext& ctx, void (*kernel)(P...), unsigned blocks, unsigned threads, const A&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = Stream(ctx);
  return CudaStatus(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...), "a kernel's launch");
}

template <class F>
__global__ void ForEachKernel(int64_t n, F f) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += step) f(i);
}

#endif  // GLUOND_GPU

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
#ifdef GLUOND_GPU
    return Launch(ctx, ForEachKernel<F>, Blocks(n), kBlockThreads, n, f);
#else
    static_assert(sizeof(D) == 0, "FCompute<gpu> is compiled for the GPU");
#endif
  }
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_LAUNCH_H_
