// A message whose tensors travel beside it: on the wire the same bytes as if they stood in its map
// field, but none of them copied.

#ifndef GLUOND_CLIENT_CPP_TENSOR_MESSAGE_H_
#define GLUOND_CLIENT_CPP_TENSOR_MESSAGE_H_

#include "client/cpp/tensor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace gluond::client {

// `message` followed by `tensors` as entries of its field number `field`, a map<string, Tensor>.
// The buffer keeps the tensors' bytes.
grpc::ByteBuffer WithTensors(const google::protobuf::Message& message, int field, const Tensors& tensors);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_TENSOR_MESSAGE_H_
