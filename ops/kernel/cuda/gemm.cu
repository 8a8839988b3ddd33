#include "ops/kernel/gemm.h"

#include <limits>

#include "engine/core/gpu_math.h"
#include "ops/kernel/cuda/library.h"

namespace gluond::ops {
namespace {

cudaDataType_t CudaType(DType type) {
  switch (type) {
    case DType::kFloat64: return CUDA_R_64F;
    case DType::kFloat16: return CUDA_R_16F;
    case DType::kBfloat16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

cublasComputeType_t ComputeType(DType type) {
  if (type == DType::kFloat64) return CUBLAS_COMPUTE_64F;
  const bool tf32 = type == DType::kFloat32 && TheGpuMath().tf32 == GpuMath::Tf32::kAll;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

}  // namespace

// cuBLAS counts by columns: what it sees are the transposed matrices, so C^T = op(B)^T op(A)^T.
template <>
absl::Status Gemm<gpu>(const OpContext& ctx, DType dtype, const GemmSize& s, const void* a, const void* b, OpReqType req, void* c) {
  const int64_t outputs = s.batch * s.m * s.n;
  if (req == kNullOp || outputs == 0) return absl::OkStatus();
  if (s.k == 0) {  // An empty sum.
    if (req == kAddTo) return absl::OkStatus();
    const size_t bytes = static_cast<size_t>(outputs * SizeOf(dtype));
    return CudaStatus(cudaMemsetAsync(c, 0, bytes, Stream(ctx)), "matrix product");
  }
  ASSIGN_OR_RETURN(const cublasHandle_t handle, BlasHandle(ctx));
  const cudaDataType_t type = CudaType(dtype);
  const Scalar alpha(dtype, s.alpha), beta(dtype, req == kAddTo ? 1 : 0);
  return CudaStatus(cublasGemmStridedBatchedEx_64(
                        handle, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, s.n, s.m, s.k,
                        alpha.get(), b, type, s.transpose_b ? s.k : s.n, s.k * s.n, a, type, s.transpose_a ? s.m : s.k, s.m * s.k,
                        beta.get(), c, type, s.n, s.m * s.n, s.batch, ComputeType(dtype), CUBLAS_GEMM_DEFAULT),
                    "matrix product");
}

}  // namespace gluond::ops
