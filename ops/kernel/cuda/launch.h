// Kernels of the GPU, and how they are started.

#include <optional>

namespace gluond::ops {

inline constexpr int kBlockThreads = 256;

// A thread reads or writes a pack at once where it can.
inline constexpr int kPackBytes = 16;
template <class T>
struct alignas(kPackBytes) Pack {
  static constexpr int kSize = kPackBytes / sizeof(T);
  T at[kSize];
};

// The first result of run(T{}) that is one, over the floating-point types T that are computed in C.
template <class C, class Run>
std::optional<absl::Status> InStorageType(const Run& run) {
  std::optional<absl::Status> done;
  if constexpr (std::is_same_v<C, float>) {
    done = run(float{});
    if (!done) done = run(Half{});
    if (!done) done = run(BFloat16{});
  } else if constexpr (std::is_same_v<C, double>) {
    done = run(double{});
  }
  return done;
}

inline bool IsAligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kPackBytes == 0; }
// True where the tensor holds T and lies as packs do.
template <class T>
bool IsOfPacks(const TBlob& x) {
  return x.dtype == DTypeOf<T> && IsAligned(x.data);
}

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

// A grid of `blocks` by as many pieces as keep a large GPU busy, `most` of them at most. It depends on the numbers alone, and
// not on the GPU, so that results do not either.
inline dim3 Grid(int64_t blocks, int64_t most) {
  constexpr int64_t kBusy = 512, kMost = int64_t{1} << 20;
  const int64_t pieces = blocks >= kBusy / 2 ? 1 : std::min((kBusy + blocks - 1) / blocks, most);
  return dim3(static_cast<unsigned>(std::min(blocks, kMost)), static_cast<unsigned>(std::max<int64_t>(1, pieces)));
}

// The elements of a block's piece, where the pieces of Grid share `count` of them.
struct PieceOf {
  int64_t begin, end;
  __device__ explicit PieceOf(int64_t count) {
    const int64_t size = (count + gridDim.y - 1) / gridDim.y;
    begin = size * blockIdx.y;
    end = begin + size < count ? begin + size : count;
  }
};

// Puts kernel(args...) on the context's stream. Errors of the kernel itself appear when the stream is synchronized.
template <class... P, class... A>
absl::Status Launch(const OpContext& ctx, void (*kernel)(P...), dim3 blocks, unsigned threads, const A&... args) {
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
