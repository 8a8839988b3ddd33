// Conversions of values between types on the host, and copies between host and device.

#ifndef ENGINE_NN_CONVERT_H_
#define ENGINE_NN_CONVERT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/core/tensor.h"
#include "engine/runtime/lane.h"

namespace gluond {

// to[i] = scale * from[i] + shift, for n values on the host. Integers saturate, NaN becomes 0, bool is "not 0".
// Equal types without scale and shift are copied byte for byte.
void ConvertValues(const void* from, DType from_type, void* to, DType to_type, int64_t n, double scale = 1,
                   double shift = 0);

// For work on `lane`, between the host and the lane's device. The shapes and types are equal. ToHost waits until the
// values are there; FromHost leaves that to the stream, and `from` may change at once.
absl::Status CopyFromHost(Lane& lane, const Tensor& from, const Tensor& to);
absl::Status CopyToHost(Lane& lane, const Tensor& from, const Tensor& to);

// `value`, which lies on the host, as a tensor of type `dtype` on the lane's device: itself, if it is that already.
absl::StatusOr<Tensor> ToDevice(Lane& lane, const Tensor& value, DType dtype, Allocator& device, Allocator& host);
// A copy of `value` on the host that nothing else refers to.
absl::StatusOr<Tensor> HostCopy(Lane& lane, const Tensor& value, Allocator& host);

}  // namespace gluond

#endif  // ENGINE_NN_CONVERT_H_
