// Functions that the kernels on cuDNN share: handles, errors as Status, element types and descriptors.
//
// cuDNN refuses a call that it does not support before it computes anything, so that a kernel with a way of its own can
// try:
//
//   ASSIGN_OR_RETURN(const bool done, Done(CudaStatus(cudnnPoolingForward(...), "Pooling")));
//   if (!done) ...

#ifndef OPS_KERNEL_CUDA_CUDNN_H_
#define OPS_KERNEL_CUDA_CUDNN_H_

#include <cudnn.h>

#include <array>

#include "ops/kernel/cuda/library.h"

namespace gluond::ops {

// UNIMPLEMENTED: cuDNN does not support it.
inline absl::Status CudaStatus(cudnnStatus_t status, absl::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  (void)cudaGetLastError();  // The next kernel is not blamed for a launch that cuDNN tried.
  const std::string message = absl::StrCat(what, ": cuDNN: ", cudnnGetErrorString(status));
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return absl::UnimplementedError(message);
  return absl::InternalError(message);
}

// True for OK, false for UNIMPLEMENTED; other errors as they are.
inline absl::StatusOr<bool> Done(const absl::Status& status) {
  if (absl::IsUnimplemented(status)) return false;
  RETURN_IF_ERROR(status);
  return true;
}

// The calling thread's handle, as BlasHandle.
inline absl::StatusOr<cudnnHandle_t> DnnHandle(const OpContext& ctx) {
  thread_local absl::flat_hash_map<int, cudnnHandle_t> handles;
  const cudaStream_t stream = Stream(ctx);
  cudnnHandle_t& handle = handles[ctx.device.id];
  if (handle == nullptr) RETURN_IF_ERROR(CudaStatus(cudnnCreate(&handle), "cudnnCreate"));
  RETURN_IF_ERROR(CudaStatus(cudnnSetStream(handle, stream), "cudnnSetStream"));
  return handle;
}

// Requires: a floating dtype.
inline cudnnDataType_t DnnType(DType type) {
  switch (type) {
    case DType::kFloat64: return CUDNN_DATA_DOUBLE;
    case DType::kFloat16: return CUDNN_DATA_HALF;
    case DType::kBfloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

// Owns one of cuDNN's descriptors; null before Create.
template <class T, cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T)>
class DnnDescriptor {
 public:
  DnnDescriptor() = default;
  ~DnnDescriptor() {
    if (value_ != nullptr) destroy(value_);
  }
  DnnDescriptor(const DnnDescriptor&) = delete;
  DnnDescriptor& operator=(const DnnDescriptor&) = delete;

  absl::Status Create() { return CudaStatus(create(&value_), "a descriptor"); }
  operator T() const { return value_; }

 private:
  T value_ = nullptr;
};
using DnnTensor = DnnDescriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using DnnFilter = DnnDescriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using DnnConvolution =
    DnnDescriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;
using DnnPooling = DnnDescriptor<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor>;

// A plan is what a kernel keeps in its KernelCache: descriptors, and what cuDNN has chosen.
struct DnnPlan {
  static size_t kept_bytes() { return 4 << 10; }  // About: cuDNN does not tell.
};

// Creates the descriptor of a tensor of layout NCHW. Requires: a floating dtype, and sizes from 1 to 2^31 - 1.
inline absl::Status Describe(DType dtype, const std::array<int64_t, 4>& nchw, DnnTensor* tensor) {
  RETURN_IF_ERROR(tensor->Create());
  const auto size = [&](int axis) { return static_cast<int>(nchw[axis]); };
  return CudaStatus(cudnnSetTensor4dDescriptor(*tensor, CUDNN_TENSOR_NCHW, DnnType(dtype), size(0), size(1), size(2), size(3)),
                    "a tensor's sizes");
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CUDA_CUDNN_H_
