#include <cublas_v2.h>

#include <algorithm>

#include "tests/gpu/emulated/library.h"

struct cublasContext : gluond::emulated::Handle {
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace gluond::emulated {
namespace {

Element ElementOf(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F: return Element::kFloat;
    case CUDA_R_64F: return Element::kDouble;
    case CUDA_R_16F: return Element::kHalf;
    case CUDA_R_16BF: return Element::kBfloat16;
  }
  Fail("cuBLAS: %d is no type", type);
}

// Matrices of rows x cols before they are transposed, column by column, `ld` elements apart.
struct Matrices {
  Element type;
  const void* data;
  int64_t rows, cols, ld;
  long long stride;
  int64_t batch;

  int64_t elements() const { return rows == 0 || cols == 0 ? 0 : (batch - 1) * stride + (cols - 1) * ld + rows; }
  bool valid() const { return ld >= std::max<int64_t>(1, rows) && stride >= 0; }
  void Check(int device, const char* what) const {
    CheckOperand(data, elements() * BytesOf(type), device, what);
    CheckAlignment(data, type, what);
  }
};

}  // namespace
}  // namespace gluond::emulated

using namespace gluond::emulated;

extern "C" {

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = NewHandle<cublasContext>();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b,
                                             int64_t m, int64_t n, int64_t k, const void* alpha, const void* a,
                                             cudaDataType_t a_type, int64_t lda, long long a_stride, const void* b,
                                             cudaDataType_t b_type, int64_t ldb, long long b_stride, const void* beta, void* c,
                                             cudaDataType_t c_type, int64_t ldc, long long c_stride, int64_t batch,
                                             cublasComputeType_t compute, cublasGemmAlgo_t) {
  const std::lock_guard lock(Machine());
  const cudaStream_t stream = StreamOf(*handle, "a matrix product");
  if (FaultOf(handle->device) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (m < 0 || n < 0 || k < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (a_type != b_type || a_type != c_type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if ((compute == CUBLAS_COMPUTE_64F) != (a_type == CUDA_R_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Element type = ElementOf(a_type);
  const bool ta = transpose_a == CUBLAS_OP_T, tb = transpose_b == CUBLAS_OP_T;
  const Matrices as = {type, a, ta ? k : m, ta ? m : k, lda, a_stride, batch};
  const Matrices bs = {type, b, tb ? n : k, tb ? k : n, ldb, b_stride, batch};
  const Matrices cs = {type, c, m, n, ldc, c_stride, batch};
  if (!as.valid() || !bs.valid() || !cs.valid()) return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  as.Check(handle->device, "a matrix product's A");
  bs.Check(handle->device, "a matrix product's B");
  cs.Check(handle->device, "a matrix product's C");
  const Blend blend(type, alpha, beta);
  // A product that is split along k has its parts added up in the type of C, unless the handle forbids it.
  const bool split = handle->math == CUBLAS_DEFAULT_MATH;
  Enqueue(stream, [=] {
    std::vector<double> av = Load(type, a, as.elements()), bv = Load(type, b, bs.elements());
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
      for (std::vector<double>* values : {&av, &bv}) std::transform(values->begin(), values->end(), values->begin(), ToTf32);
    }
    std::vector<double> column(m);
    for (int64_t p = 0; p < batch; ++p) {
      for (int64_t j = 0; j < n; ++j) {
        column.assign(m, 0);
        for (int64_t l = 0; l < k; ++l) {
          if (split && l == k / 2) Round(type, &column);
          const double factor = bv[p * b_stride + (tb ? j + l * ldb : l + j * ldb)];
          const double* const from = av.data() + p * a_stride + (ta ? l : l * lda);
          const int64_t step = ta ? lda : 1;
          for (int64_t i = 0; i < m; ++i) column[i] += from[i * step] * factor;
        }
        for (int64_t i = 0; i < m; ++i) Store(type, c, p * c_stride + i + j * ldc, column[i], blend);
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
