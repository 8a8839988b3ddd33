// Kernels of the GPU, and how they are started.

namespace gluond::ops {

inline constexpr int kBlockThreads = 256;

// The Status of a call of CUDA. A failure is taken from the thread's state, so that no later call is blamed for it.
inline absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  const std::string message = absl::StrCat(what, ": CUDA: ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

// The context's stream. Its device becomes the thread's current one, as CUDA refuses kernels on a stream of another,
// and the thread's last user may have chosen another.
inline cudaStream_t Stream(const OpContext& ctx) {
  (void)cudaSetDevice(ctx.device.id);  // A failure comes again when the stream is used.
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

template <class F>
absl::Status ForEachOn(gpu, const OpContext& ctx, int64_t n, const F& f, int64_t /*grain*/) {
  return Launch(ctx, ForEachKernel<F>, Blocks(n), kBlockThreads, n, f);
}

inline absl::Status CopyBytes(gpu, const OpContext& ctx, const TBlob& x, const TBlob& y) {
  return CudaStatus(cudaMemcpyAsync(y.data, x.data, y.bytes(), cudaMemcpyDeviceToDevice, Stream(ctx)), "a copy");
}

inline absl::Status ZeroBytes(gpu, const OpContext& ctx, const TBlob& y) {
  return CudaStatus(cudaMemsetAsync(y.data, 0, y.bytes(), Stream(ctx)), "zeros");
}

}  // namespace gluond::ops
