// Copies of tensors between places: within a device, between the host and a device, and from one GPU to another. Each is
// behind the work on the streams of the devices' lanes. (A copy waits as core/device.h says.)

#ifndef ENGINE_RUNTIME_TRANSFER_H_
#define ENGINE_RUNTIME_TRANSFER_H_

#include "absl/status/statusor.h"
#include "engine/core/tensor.h"
#include "engine/runtime/lane.h"

namespace gluond {

struct OpContext;

struct CopyOptions {
  const Lanes* others = nullptr;      // From one GPU to another: the lanes of the device to which the copy goes.
  const OpContext* add_in = nullptr;  // Adds, within a device that CanAdd, by an operator in this context.
};

// Copies to memory that is there, of equal shape and type. Each of the two lies on the device of `lanes` or on the host, and
// one of them on the device. `from` may change at once if it lies on the host. Memory on the host is filled at return.
absl::Status Copy(const TBlob& from, const TBlob& to, const Lanes& lanes, const CopyOptions& options = {});
// Whether a copy may be added to memory there: it takes operator _copy.
bool CanAdd(Device device);

// A copy in memory that `allocator` gives, which nothing else refers to.
absl::StatusOr<Tensor> CopyTo(const Tensor& from, const Lanes& lanes, Allocator& allocator, const CopyOptions& options = {});
// The same in the memory of `kept`, which gets other memory if it is not like `from`.
absl::Status CopyInto(Tensor* kept, const Tensor& from, const Lanes& lanes, Allocator& allocator);
// Moves `tensor` to a copy on its device unless the caller is its memory's only holder, so that it may be written.
absl::Status Own(Tensor* tensor, const Lanes& device, Allocator& allocator);

// Memory for a tensor of that shape and type: that of `kept`, if it is such a tensor.
absl::StatusOr<Tensor> Reuse(Tensor* kept, const Shape& shape, DType dtype, Allocator& allocator);
// `tensor`, which lies on the host, as another type: itself, if it is of that type.
absl::StatusOr<Tensor> AsType(const Tensor& tensor, DType type, Allocator& host);

}  // namespace gluond

#endif  // ENGINE_RUNTIME_TRANSFER_H_
