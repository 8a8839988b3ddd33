// HOST_DEVICE marks a function that is built from one text for the CPU and for the GPU.
//
// GLUOND_GPU is defined where a file is compiled for the GPU: by nvcc, or by g++ for the emulated GPU
// (tests/gpu/emulated), whose cuda_runtime.h stands in for CUDA's. GLUOND_GPU_CODE is defined where the compiler makes
// the code that runs there: in one of nvcc's two passes over a file, and in g++'s only one.

#ifndef ENGINE_CORE_HOST_DEVICE_H_
#define ENGINE_CORE_HOST_DEVICE_H_

#ifdef GLUOND_GPU
#include <cuda_runtime.h>
#define HOST_DEVICE __host__ __device__ __forceinline__
#if defined(__CUDA_ARCH__) || !defined(__CUDACC__)
#define GLUOND_GPU_CODE
#endif
#else
#define HOST_DEVICE inline __attribute__((always_inline))
#endif

#endif  // ENGINE_CORE_HOST_DEVICE_H_
