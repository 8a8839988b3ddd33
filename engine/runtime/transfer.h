// Copies of tensors between the host and a device, and from one device to another, each behind the work on the stream
// of the device's lanes. (A copy waits as core/device.h says.)

#ifndef ENGINE_RUNTIME_TRANSFER_H_
#define ENGINE_RUNTIME_TRANSFER_H_

#include "absl/status/statusor.h"
#include "engine/core/tensor.h"
#include "engine/runtime/lane.h"

namespace gluond {

// A copy of `host` on the device, whose memory `allocator` gives. `host` may change at once.
absl::StatusOr<Tensor> CopyToDevice(const Tensor& host, const Lanes& device, Allocator& allocator);
// A copy of `tensor` on the host that nothing else refers to, complete at return.
absl::StatusOr<Tensor> CopyToHost(const Tensor& tensor, const Lanes& device, Allocator& host);
// The same into memory that is there, of equal shape and type. `from` lies on the host or on the device.
absl::Status CopyToDevice(const Tensor& from, const Lanes& device, const Tensor& to);
absl::Status CopyToHost(const Tensor& tensor, const Lanes& device, const Tensor& to);
// Moves `tensor` to a copy on its device unless the caller is its memory's only holder, so that it may be written.
absl::Status Own(Tensor* tensor, const Lanes& device, Allocator& allocator);
// A copy of `tensor`, which lies on the device `from` or on the host, on the device `to`.
absl::StatusOr<Tensor> CopyBetween(const Tensor& tensor, const Lanes& from, const Lanes& to, Allocator& allocator);

// `tensor`, which lies on the host, as another type: itself, if it is of that type.
absl::StatusOr<Tensor> AsType(const Tensor& tensor, DType type, Allocator& host);

}  // namespace gluond

#endif  // ENGINE_RUNTIME_TRANSFER_H_
