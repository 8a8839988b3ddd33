// TensorStatistics summarizes a tensor whose values are not sent.

#ifndef SERVER_CODEC_TENSOR_STATISTICS_H_
#define SERVER_CODEC_TENSOR_STATISTICS_H_

#include "engine/core/tensor.h"
#include "gluond/v1/tensor.pb.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// The statistics of `bytes`, the little-endian elements of type `dtype`.
v1::Statistics TensorStatistics(DType dtype, const Bytes& bytes);

}  // namespace gluond::server

#endif  // SERVER_CODEC_TENSOR_STATISTICS_H_
