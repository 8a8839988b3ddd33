// The declarations of cuda_runtime.h, cublas_v2.h and cudnn.h that the emulated GPU has, too. This file is compiled
// once with the emulated GPU's headers and once with NVIDIA's.

#include "tests/gpu/emulated/declarations.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <string>
#include <typeinfo>

namespace gluond::emulated {

#define VALUE(x) list.push_back({#x, std::to_string(static_cast<long long>(x))})
#define TYPE(x) list.push_back({#x, typeid(decltype(&x)).name()})
// An overloaded function, or one with default arguments, whose type nvcc cannot deduce.
#define OVERLOAD(x, type) list.push_back({#x, typeid(static_cast<type>(&x)).name()})
#define FIELD(type, x) list.push_back({#type "::" #x, typeid(decltype(type::x)).name()})

Declarations GLUOND_DECLARATIONS() {
  Declarations list;

  VALUE(cudaSuccess);
  VALUE(cudaErrorInvalidValue);
  VALUE(cudaErrorMemoryAllocation);
  VALUE(cudaErrorInvalidConfiguration);
  VALUE(cudaErrorInsufficientDriver);
  VALUE(cudaErrorNoDevice);
  VALUE(cudaErrorInvalidDevice);
  VALUE(cudaErrorECCUncorrectable);
  VALUE(cudaErrorInvalidResourceHandle);
  VALUE(cudaErrorIllegalAddress);
  VALUE(cudaErrorLaunchTimeout);
  VALUE(cudaErrorAssert);
  VALUE(cudaErrorHardwareStackError);
  VALUE(cudaErrorIllegalInstruction);
  VALUE(cudaErrorMisalignedAddress);
  VALUE(cudaErrorInvalidAddressSpace);
  VALUE(cudaErrorInvalidPc);
  VALUE(cudaErrorLaunchFailure);
  VALUE(cudaErrorUnknown);
  VALUE(cudaMemcpyHostToDevice);
  VALUE(cudaMemcpyDeviceToHost);
  VALUE(cudaMemcpyDeviceToDevice);
  VALUE(cudaStreamNonBlocking);
  VALUE(cudaEventDisableTiming);
  VALUE(cudaHostAllocDefault);
  FIELD(cudaDeviceProp, name);
  FIELD(cudaDeviceProp, totalGlobalMem);
  FIELD(cudaDeviceProp, major);
  FIELD(cudaDeviceProp, minor);
  FIELD(cudaLaunchConfig_t, gridDim);
  FIELD(cudaLaunchConfig_t, blockDim);
  FIELD(cudaLaunchConfig_t, dynamicSmemBytes);
  FIELD(cudaLaunchConfig_t, stream);
  TYPE(cudaGetDeviceCount);
  TYPE(cudaGetDeviceProperties);
  TYPE(cudaSetDevice);
  TYPE(cudaGetLastError);
  TYPE(cudaGetErrorString);
  OVERLOAD(cudaMalloc, cudaError_t(*)(void**, size_t));
  TYPE(cudaFree);
  VALUE(cudaMemPoolAttrReleaseThreshold);
  OVERLOAD(cudaMallocAsync, cudaError_t(*)(void**, size_t, cudaStream_t));
  TYPE(cudaFreeAsync);
  TYPE(cudaDeviceGetDefaultMemPool);
  TYPE(cudaMemPoolSetAttribute);
  TYPE(cudaMemPoolTrimTo);
  TYPE(cudaStreamCreateWithFlags);
  TYPE(cudaStreamDestroy);
  TYPE(cudaStreamSynchronize);
  OVERLOAD(cudaEventCreateWithFlags, cudaError_t(*)(cudaEvent_t*, unsigned));
  TYPE(cudaEventDestroy);
  OVERLOAD(cudaEventRecord, cudaError_t(*)(cudaEvent_t, cudaStream_t));
  TYPE(cudaEventSynchronize);
  TYPE(cudaMemGetInfo);
  OVERLOAD(cudaHostAlloc, cudaError_t(*)(void**, size_t, unsigned));
  TYPE(cudaFreeHost);
  OVERLOAD(cudaMemcpyAsync, cudaError_t(*)(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t));
  OVERLOAD(cudaMemsetAsync, cudaError_t(*)(void*, int, size_t, cudaStream_t));

  VALUE(CUBLAS_STATUS_SUCCESS);
  VALUE(CUBLAS_STATUS_ALLOC_FAILED);
  VALUE(CUBLAS_STATUS_INVALID_VALUE);
  VALUE(CUBLAS_STATUS_EXECUTION_FAILED);
  VALUE(CUBLAS_STATUS_NOT_SUPPORTED);
  VALUE(CUBLAS_OP_N);
  VALUE(CUBLAS_OP_T);
  VALUE(CUBLAS_COMPUTE_32F);
  VALUE(CUBLAS_COMPUTE_32F_FAST_TF32);
  VALUE(CUBLAS_COMPUTE_64F);
  VALUE(CUBLAS_GEMM_DEFAULT);
  VALUE(CUBLAS_DEFAULT_MATH);
  VALUE(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  VALUE(CUDA_R_32F);
  VALUE(CUDA_R_64F);
  VALUE(CUDA_R_16F);
  VALUE(CUDA_R_16BF);
  TYPE(cublasCreate);
  TYPE(cublasSetStream);
  TYPE(cublasSetMathMode);
  TYPE(cublasGetStatusString);
  TYPE(cublasGemmStridedBatchedEx_64);

  VALUE(CUDNN_STATUS_SUCCESS);
  VALUE(CUDNN_STATUS_BAD_PARAM);
  VALUE(CUDNN_STATUS_NOT_SUPPORTED);
  VALUE(CUDNN_STATUS_EXECUTION_FAILED);
  VALUE(CUDNN_STATUS_CATEGORY(3007));
  VALUE(CUDNN_DATA_FLOAT);
  VALUE(CUDNN_DATA_DOUBLE);
  VALUE(CUDNN_DATA_HALF);
  VALUE(CUDNN_DATA_BFLOAT16);
  VALUE(CUDNN_TENSOR_NCHW);
  VALUE(CUDNN_CROSS_CORRELATION);
  VALUE(CUDNN_DEFAULT_MATH);
  VALUE(CUDNN_TENSOR_OP_MATH);
  VALUE(CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
  VALUE(CUDNN_FMA_MATH);
  VALUE(CUDNN_NON_DETERMINISTIC);
  VALUE(CUDNN_DETERMINISTIC);
  VALUE(CUDNN_PROPAGATE_NAN);
  VALUE(CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING);
  VALUE(CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING);
  VALUE(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED);
  VALUE(CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED);
  VALUE(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED);
  VALUE(CUDNN_BATCHNORM_SPATIAL);
  VALUE(CUDNN_BN_MIN_EPSILON);
  VALUE(sizeof(cudnnConvolutionFwdAlgoPerf_t));
  FIELD(cudnnConvolutionFwdAlgoPerf_t, algo);
  FIELD(cudnnConvolutionFwdAlgoPerf_t, status);
  FIELD(cudnnConvolutionFwdAlgoPerf_t, memory);
  FIELD(cudnnConvolutionFwdAlgoPerf_t, determinism);
  FIELD(cudnnConvolutionFwdAlgoPerf_t, mathType);
  TYPE(cudnnCreate);
  TYPE(cudnnSetStream);
  TYPE(cudnnGetErrorString);
  TYPE(cudnnCreateTensorDescriptor);
  TYPE(cudnnDestroyTensorDescriptor);
  TYPE(cudnnSetTensor4dDescriptor);
  TYPE(cudnnCreateFilterDescriptor);
  TYPE(cudnnDestroyFilterDescriptor);
  TYPE(cudnnSetFilter4dDescriptor);
  TYPE(cudnnCreateConvolutionDescriptor);
  TYPE(cudnnDestroyConvolutionDescriptor);
  TYPE(cudnnSetConvolution2dDescriptor);
  TYPE(cudnnSetConvolutionGroupCount);
  TYPE(cudnnSetConvolutionMathType);
  TYPE(cudnnGetConvolutionForwardAlgorithm_v7);
  TYPE(cudnnGetConvolutionBackwardDataAlgorithm_v7);
  TYPE(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  TYPE(cudnnGetConvolutionForwardWorkspaceSize);
  TYPE(cudnnGetConvolutionBackwardDataWorkspaceSize);
  TYPE(cudnnGetConvolutionBackwardFilterWorkspaceSize);
  TYPE(cudnnConvolutionForward);
  TYPE(cudnnConvolutionBackwardData);
  TYPE(cudnnConvolutionBackwardFilter);
  TYPE(cudnnCreatePoolingDescriptor);
  TYPE(cudnnDestroyPoolingDescriptor);
  TYPE(cudnnSetPooling2dDescriptor);
  TYPE(cudnnPoolingForward);
  TYPE(cudnnPoolingBackward);
  TYPE(cudnnBatchNormalizationForwardTraining);
  TYPE(cudnnBatchNormalizationForwardInference);
  TYPE(cudnnBatchNormalizationBackward);
  return list;
}

}  // namespace gluond::emulated
