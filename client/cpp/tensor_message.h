// Tensors as messages, and a message whose tensors travel beside it: on the wire the same bytes as if they stood in its map
// field, but none of them copied.

#ifndef GLUOND_CLIENT_CPP_TENSOR_MESSAGE_H_
#define GLUOND_CLIENT_CPP_TENSOR_MESSAGE_H_

#include "gluond/tensor.h"
#include "gluond/v1/tensor.pb.h"
#include "google/protobuf/map.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"

namespace gluond::client {

inline DType FromProto(v1::Tensor::DType dtype) { return static_cast<DType>(dtype); }
inline v1::Tensor::DType ToProto(DType dtype) { return static_cast<v1::Tensor::DType>(dtype); }

// The tensor of a reply, raw or typed. INVALID_ARGUMENT: it has no values (statistics), or not as
// many as the shape.
absl::StatusOr<Tensor> FromProto(v1::Tensor proto);

// As `raw`.
v1::Tensor ToProto(const Tensor& tensor);

// Moves the tensors out of a message's map field.
absl::StatusOr<Tensors> FromProto(google::protobuf::Map<std::string, v1::Tensor>* map);

// `message` followed by `tensors` as entries of its field number `field`, a map<string, Tensor>.
// The buffer keeps the tensors' bytes.
grpc::ByteBuffer WithTensors(const google::protobuf::MessageLite& message, int field, const Tensors& tensors);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_TENSOR_MESSAGE_H_
