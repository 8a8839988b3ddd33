// Copies of tensors between the host and the device of a place.

#ifndef SERVER_DEVICE_COPY_H_
#define SERVER_DEVICE_COPY_H_

#include "absl/status/statusor.h"
#include "engine/core/tensor.h"
#include "server/devices.h"

namespace gluond::server {

// A new tensor on the place's device, complete at return.
absl::StatusOr<Tensor> CopyToDevice(const Tensor& host, Place& place);
// `tensor` itself when it is on the host already.
absl::StatusOr<Tensor> CopyToHost(const Tensor& tensor, Place& place, Allocator& host);

}  // namespace gluond::server

#endif  // SERVER_DEVICE_COPY_H_
