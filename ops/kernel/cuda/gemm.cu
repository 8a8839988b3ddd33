#include "ops/kernel/gemm.h"

#include <limits>

#include "engine/core/gpu_math.h"
#include "ops/kernel/cuda/library.h"
#include "ops/kernel/map.h"

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

template <class C>
struct AddBias {
  int64_t cols;
  In<C> bias;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, bias[i % cols]); }
};

template <class T, class C>
struct AddPackOfBias {
  uint32_t packs;  // A row has so many.
  const Pack<T>* bias;
  Pack<T>* y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t rows = i >> 32 == 0 ? static_cast<uint32_t>(i) / packs : i / packs;  // 32 bits are divided faster.
    const Pack<T> b = bias[i - rows * packs];
    Pack<T> sum = y[i];
    for (int k = 0; k < Pack<T>::kSize; ++k) Assign(sum.at, k, Convert<C>(b.at[k]), /*add=*/true);
    y[i] = sum;
  }
};

// y[r, c] += bias[c]: 16 bytes of a row at a time where rows are made of such, else an element at a time.
template <class C>
absl::Status AddToRows(const OpContext& ctx, const TBlob& bias, const TBlob& y) {
  const int64_t cols = bias.Size();
  const auto by_packs = [&]<class T>(T) -> std::optional<absl::Status> {
    constexpr int kSize = Pack<T>::kSize;
    if (!IsOfPacks<T>(y) || !IsOfPacks<T>(bias) || cols % kSize != 0 || cols >> 32 != 0) return std::nullopt;
    return ForEach<gpu>(ctx, y.Size() / kSize,
                        AddPackOfBias<T, C>{static_cast<uint32_t>(cols / kSize), static_cast<const Pack<T>*>(bias.data),
                                            static_cast<Pack<T>*>(y.data)});
  };
  if (const auto done = InStorageType<C>(by_packs)) return *done;
  return ForEach<gpu>(ctx, y.Size(), AddBias<C>{cols, In<C>(bias), Out<C>(y, kAddTo)});
}

// cuBLAS counts by columns: what it sees are the transposed matrices, so C^T = op(B)^T op(A)^T.
absl::Status Multiply(const OpContext& ctx, DType dtype, const GemmSize& s, const void* a, const void* b, OpReqType req, void* c) {
  const int64_t outputs = s.batch * s.m * s.n;
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

}  // namespace

template <>
absl::Status Gemm<gpu>(const OpContext& ctx, DType dtype, const GemmSize& s, const void* a, const void* b, OpReqType req, void* c,
                       const void* bias) {
  const int64_t rows = s.batch * s.m;
  if (req == kNullOp || rows * s.n == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Multiply(ctx, dtype, s, a, b, req, c));
  if (bias == nullptr) return absl::OkStatus();
  const TBlob row = {const_cast<void*>(bias), Shape({s.n}), dtype, ctx.device}, y = {c, Shape({rows, s.n}), dtype, ctx.device};
  return DispatchReal(dtype, [&](auto t) { return AddToRows<decltype(t)>(ctx, row, y); });
}

}  // namespace gluond::ops
