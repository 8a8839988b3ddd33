// Gemm: C = alpha op(A) op(B) for row-major matrices, op being the matrix or its transpose; one product or a batch.
// On a CPU oneDNN (OpenBLAS for float64) and code of our own for few rows, cuBLAS on a GPU. The 16-bit types add up in float32.

#ifndef OPS_KERNEL_GEMM_H_
#define OPS_KERNEL_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_context.h"

namespace gluond::ops {

struct GemmSize {
  int64_t m, n, k;  // op(A) is m x k, op(B) is k x n, C is m x n.
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t batch = 1;  // Matrices that follow one another, in A, B and C alike.
  double alpha = 1;
};

// Honours `req` for C. `bias`: a vector of n, which each row of C gets, or null. Requires: a floating dtype; C overlaps none of the
// others.
template <class D>
absl::Status Gemm(const OpContext& ctx, DType dtype, const GemmSize& size, const void* a, const void* b, OpReqType req, void* c,
                  const void* bias = nullptr);
template <>
absl::Status Gemm<cpu>(const OpContext& ctx, DType dtype, const GemmSize& size, const void* a, const void* b, OpReqType req,
                       void* c, const void* bias);
template <>
absl::Status Gemm<gpu>(const OpContext& ctx, DType dtype, const GemmSize& size, const void* a, const void* b, OpReqType req,
                       void* c, const void* bias);

// PrepareGemm makes what Gemm<cpu> will look for in ctx.kernels: see FPrepare. `b` may be null, for a matrix that no constant is.
absl::Status PrepareGemm(const OpContext& ctx, DType dtype, const GemmSize& size, const void* b, OpReqType req);

}  // namespace gluond::ops

#endif  // OPS_KERNEL_GEMM_H_
