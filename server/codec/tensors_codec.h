// Lists and maps of tensors between the wire and the engine; errors name the tensor.

#ifndef SERVER_CODEC_TENSORS_CODEC_H_
#define SERVER_CODEC_TENSORS_CODEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/status_macros.h"
#include "engine/nn/named_tensor.h"
#include "google/protobuf/map.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "server/codec/tensor_codec.h"

namespace gluond::server {

using TensorList = google::protobuf::RepeatedPtrField<v1::Tensor>;
using TensorMap = google::protobuf::Map<std::string, v1::Tensor>;

absl::StatusOr<std::vector<Tensor>> DecodeTensors(const TensorList& list, const Attachments& attachments, Allocator& host);
// `kind` is the tensors' word in messages: "input".
absl::StatusOr<NamedTensors> DecodeTensors(absl::string_view kind, const TensorMap& map, const Attachments& attachments,
                                           Allocator& host);

// The form of the reply's tensors: the one asked for, or for AUTO the request's own.
v1::Tensor::Encoding ReplyForm(v1::Tensor::Encoding asked, const TensorList& request);
v1::Tensor::Encoding ReplyForm(v1::Tensor::Encoding asked, const TensorMap& request);
v1::Tensor::Encoding ReplyForm(v1::Tensor::Encoding asked);  // Where the request has no tensors: TYPED.

// Nothing is added when `form` is NONE. RESOURCE_EXHAUSTED: as TYPED they take more than `most_bytes`.
absl::Status EncodeTensors(const std::vector<Tensor>& tensors, v1::Tensor::Encoding form, int64_t most_bytes, TensorList* list,
                           Attachments* attachments);
absl::Status EncodeTensors(const NamedTensors& tensors, v1::Tensor::Encoding form, int64_t most_bytes, TensorMap* map,
                           Attachments* attachments);

// Whether encoding takes long: it looks at each of many elements. `kept`: the answer will be kept (stored_answer.h).
bool TakesLongToEncode(const std::vector<Tensor>& tensors, v1::Tensor::Encoding form, bool kept);
bool TakesLongToEncode(const NamedTensors& tensors, v1::Tensor::Encoding form, bool kept);

// Whether decoding takes long although the request is short: it has large fills.
bool HasLargeFill(const TensorList& list);
bool HasLargeFill(const TensorMap& map);

}  // namespace gluond::server

#endif  // SERVER_CODEC_TENSORS_CODEC_H_
