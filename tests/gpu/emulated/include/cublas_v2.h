// The part of cuBLAS that ops/ uses; see cuda_runtime.h.

#ifndef TESTS_GPU_EMULATED_INCLUDE_CUBLAS_V2_H_
#define TESTS_GPU_EMULATED_INCLUDE_CUBLAS_V2_H_

#include <cuda_runtime.h>

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };

using cublasHandle_t = struct cublasContext*;

extern "C" {
cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b,
                                             int64_t m, int64_t n, int64_t k, const void* alpha, const void* a,
                                             cudaDataType_t a_type, int64_t lda, long long a_stride, const void* b,
                                             cudaDataType_t b_type, int64_t ldb, long long b_stride, const void* beta, void* c,
                                             cudaDataType_t c_type, int64_t ldc, long long c_stride, int64_t batch,
                                             cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
}

#endif  // TESTS_GPU_EMULATED_INCLUDE_CUBLAS_V2_H_
