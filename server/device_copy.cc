#include "server/device_copy.h"

#include "engine/core/status_macros.h"

namespace gluond::server {

absl::StatusOr<Tensor> CopyToDevice(const Tensor& host, Place& place) {
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(*place.allocator, host.shape(), host.dtype()));
  RETURN_IF_ERROR(place.lanes->driver().CopyFromHost(copy.data(), host.data(), host.bytes(), place.lanes->stream()));
  return copy;
}

absl::StatusOr<Tensor> CopyToHost(const Tensor& tensor, Place& place, Allocator& host) {
  if (tensor.device().type == DeviceType::kCpu) return tensor;
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(host, tensor.shape(), tensor.dtype()));
  RETURN_IF_ERROR(place.lanes->driver().CopyToHost(copy.data(), tensor.data(), tensor.bytes(), place.lanes->stream()));
  return copy;
}

}  // namespace gluond::server
