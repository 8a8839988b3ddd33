// Tensors of the open inference protocol (proto/inference) between the wire and the engine. Types have names there:
// "FP32". Raw bytes and large answers stay where they lie, as in tensor_codec.h.

#ifndef SERVER_CODEC_INFER_CODEC_H_
#define SERVER_CODEC_INFER_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/nn/named_tensor.h"
#include "proto/inference/grpc_service.pb.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// "FP32"; empty for the unknown type.
absl::string_view DatatypeOf(DType dtype);
inference::DataType ConfigTypeOf(DType dtype);

// The inputs, in memory of the CPU: not to be written. INVALID_ARGUMENT: says which input, and what was expected. Values come
// either all in `contents`, or all in `raw_input_contents`.
absl::StatusOr<NamedTensors> DecodeInferInputs(const inference::ModelInferRequest& request,
                                               const Attachments& attachments, Allocator& host);

// Adds an output with its values as raw bytes, which may refer to the tensor's memory.
absl::Status EncodeInferOutput(const std::string& name, const Tensor& tensor, inference::ModelInferResponse* response,
                               Attachments* attachments);
// Adds, in the output's place, its `count` largest values and their places: texts "0.98:7". `by_row`: of each row.
// RESOURCE_EXHAUSTED: the texts have more than `most_bytes`.
absl::Status EncodeClasses(const std::string& name, const Tensor& tensor, int64_t count, bool by_row, int64_t most_bytes,
                           inference::ModelInferResponse* response);

}  // namespace gluond::server

#endif  // SERVER_CODEC_INFER_CODEC_H_
