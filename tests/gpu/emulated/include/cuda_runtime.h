// The part of the CUDA runtime that ops/ uses, for g++, so that the GPU's kernels run where there is no GPU. Names,
// values and meanings are CUDA's; declarations_test compares them with NVIDIA's headers where those are installed.

#ifndef TESTS_GPU_EMULATED_INCLUDE_CUDA_RUNTIME_H_
#define TESTS_GPU_EMULATED_INCLUDE_CUDA_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorECCUncorrectable = 214,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorUnknown = 999,
};
using cudaError_t = cudaError;

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0;

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaMemPool_t = struct CUmemPoolHandle_st*;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// The fields that ops/ reads.
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor;
};
typedef struct cudaLaunchConfig_st {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
} cudaLaunchConfig_t;

extern "C" {
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
}

// The running thread's place, as the kernel sees it. One kernel runs at a time in the process.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static  // One block runs at a time.

namespace gluond::emulated {

using Site = std::source_location;

// Puts a kernel's launch on its stream; `thread` runs one thread of it.
cudaError_t Launch(const cudaLaunchConfig_t& config, size_t parameter_bytes, const char* name, std::function<void()> thread);

// A barrier of the block's threads, or of the lanes in `mask`. All must come, and to the same place in the source.
void SyncBlock(const Site& site);
void SyncWarp(unsigned mask, const Site& site);
// Gives `bits`, and returns the bits of the lane whose number is this lane's XOR `step`.
uint64_t Exchange(unsigned mask, uint64_t bits, int step, const Site& site);

}  // namespace gluond::emulated

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... args) {
  static_assert((std::is_trivially_copyable_v<P> && ...), "CUDA copies a kernel's parameters byte by byte");
  return gluond::emulated::Launch(*config, (sizeof(P) + ... + 0), __PRETTY_FUNCTION__,
                                  [kernel, ... p = static_cast<P>(args)] { kernel(p...); });
}

inline void __syncthreads(const gluond::emulated::Site& site = gluond::emulated::Site::current()) {
  gluond::emulated::SyncBlock(site);
}
inline void __syncwarp(unsigned mask = ~0u, const gluond::emulated::Site& site = gluond::emulated::Site::current()) {
  gluond::emulated::SyncWarp(mask, site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int step, const gluond::emulated::Site& site = gluond::emulated::Site::current()) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "CUDA has no shuffle of this type");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = gluond::emulated::Exchange(mask, bits, step, site);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline unsigned long long atomicMin(unsigned long long* p, unsigned long long value) {
  const unsigned long long old = *p;
  if (value < old) *p = value;
  return old;
}
inline unsigned long long atomicMax(unsigned long long* p, unsigned long long value) {
  const unsigned long long old = *p;
  if (value > old) *p = value;
  return old;
}
double erfinv(double x);

#endif  // TESTS_GPU_EMULATED_INCLUDE_CUDA_RUNTIME_H_
