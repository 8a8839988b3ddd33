// Functions that the kernels on CUDA's libraries share: cuBLAS's handles, one for each thread and device, and errors as
// Status. cudnn.h adds cuDNN's.

#ifndef OPS_KERNEL_CUDA_LIBRARY_H_
#define OPS_KERNEL_CUDA_LIBRARY_H_

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/core/dtype.h"
#include "engine/core/op_context.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {

inline absl::Status CudaStatus(cublasStatus_t status, absl::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  (void)cudaGetLastError();  // The next kernel is not blamed for a call that cuBLAS made.
  return absl::InternalError(absl::StrCat(what, ": cuBLAS: ", cublasGetStatusString(status)));
}

// The calling thread's handle for the context's device, set to its stream. It lives until exit, as a lane does: memory
// that a library frees after the driver has shut down is freed twice.
inline absl::StatusOr<cublasHandle_t> BlasHandle(const OpContext& ctx) {
  thread_local absl::flat_hash_map<int, cublasHandle_t> handles;
  const cudaStream_t stream = Stream(ctx);
  cublasHandle_t& handle = handles[ctx.device.id];
  if (handle == nullptr) {
    RETURN_IF_ERROR(CudaStatus(cublasCreate(&handle), "cublasCreate"));
    // Otherwise products of 16-bit types may be added up in 16 bits where they are split.
    RETURN_IF_ERROR(CudaStatus(cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION), "cublasSetMathMode"));
  }
  RETURN_IF_ERROR(CudaStatus(cublasSetStream(handle, stream), "cublasSetStream"));
  return handle;
}

// The factors alpha and beta as the libraries want them: double for float64, else float.
class Scalar {
 public:
  Scalar(DType type, double value) : float_(static_cast<float>(value)), double_(value), wide_(type == DType::kFloat64) {}
  const void* get() const { return wide_ ? static_cast<const void*>(&double_) : &float_; }

 private:
  float float_;
  double double_;
  bool wide_;
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CUDA_LIBRARY_H_
