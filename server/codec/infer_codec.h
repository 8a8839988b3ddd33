// Tensors of the open inference protocol (proto/inference) between the wire and the engine. Types have names there:
// "FP32". Raw bytes and large answers stay where they lie, as in tensor_codec.h.

#ifndef SERVER_CODEC_INFER_CODEC_H_
#define SERVER_CODEC_INFER_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/nn/named_tensor.h"
#include "proto/inference/grpc_service.pb.h"
#include "server/wire/attachments.h"
#include "server/wire/shared_regions.h"

namespace gluond::server {

// "FP32"; empty for the unknown type.
absl::string_view DatatypeOf(DType dtype);
inference::DataType ConfigTypeOf(DType dtype);

// A tensor's place in a region of shared memory, as its parameters tell it: shared_memory_region, shared_memory_offset
// (0, where there is none) and shared_memory_byte_size.
struct SharedPlace {
  std::string region;
  uint64_t offset = 0;
  uint64_t byte_size = 0;
};

// A number of 0 or more. INVALID_ARGUMENT names the parameter.
absl::StatusOr<uint64_t> Natural(absl::string_view name, const inference::InferParameter& parameter);

// Nothing: the tensor does not lie there. INVALID_ARGUMENT: a parameter, or the server takes none.
using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;
absl::StatusOr<std::optional<SharedPlace>> ReadSharedPlace(const Parameters& parameters, const CallersRegions& regions);

// The inputs, in memory of the CPU: not to be written. INVALID_ARGUMENT: says which input, and what was expected. Values come
// either all in `contents`, or all in `raw_input_contents`, but for those that lie in shared memory. NOT_FOUND: no such
// region. `regions`: null where the server takes none.
absl::StatusOr<NamedTensors> DecodeInferInputs(const inference::ModelInferRequest& request, const Attachments& attachments,
                                               const CallersRegions& regions, Allocator& host);

// Adds an output with its values as raw bytes, which may refer to the tensor's memory.
absl::Status EncodeInferOutput(const std::string& name, const Tensor& tensor, inference::ModelInferResponse* response,
                               Attachments* attachments);
// Writes the output's values to shared memory and adds it without them. INVALID_ARGUMENT: the place has too few bytes.
absl::Status EncodeSharedOutput(const std::string& name, const Tensor& tensor, const SharedPlace& place,
                                const CallersRegions& regions, inference::ModelInferResponse* response);
// Adds, in the output's place, its `count` largest values and their places: texts "0.980000:7", of integers "98:7".
// `by_row`: of each row.
// RESOURCE_EXHAUSTED: the texts have more than `most_bytes`.
absl::Status EncodeClasses(const std::string& name, const Tensor& tensor, int64_t count, bool by_row, int64_t most_bytes,
                           inference::ModelInferResponse* response);

}  // namespace gluond::server

#endif  // SERVER_CODEC_INFER_CODEC_H_
