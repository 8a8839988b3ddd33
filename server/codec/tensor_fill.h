// FillTensor makes the values of a tensor that a request describes rather than sends.

#ifndef SERVER_CODEC_TENSOR_FILL_H_
#define SERVER_CODEC_TENSOR_FILL_H_

#include "absl/status/status.h"
#include "engine/core/tensor.h"
#include "gluond/v1/tensor.pb.h"

namespace gluond::server {

// INVALID_ARGUMENT: an empty range, a negative deviation, a value that is not finite or that an integer dtype cannot
// hold. Requires: a tensor on the CPU.
absl::Status FillTensor(const v1::Fill& fill, const Tensor& tensor);

}  // namespace gluond::server

#endif  // SERVER_CODEC_TENSOR_FILL_H_
