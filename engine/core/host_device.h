// HOST_DEVICE marks a function that both the CPU and the CUDA compiler build from one text.

#ifndef ENGINE_CORE_HOST_DEVICE_H_
#define ENGINE_CORE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__ __forceinline__
#else
#define HOST_DEVICE inline __attribute__((always_inline))
#endif

#endif  // ENGINE_CORE_HOST_DEVICE_H_
