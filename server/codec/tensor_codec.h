// Tensors between the wire and the engine. Raw bytes stay where gRPC put them when they lie in one piece and are aligned
// for their type, and are copied once otherwise. In replies, large tensors are sent from where they lie.

#ifndef SERVER_CODEC_TENSOR_CODEC_H_
#define SERVER_CODEC_TENSOR_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/tensor.h"
#include "gluond/v1/tensor.pb.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// INVALID_ARGUMENT: a number that is no dtype.
absl::StatusOr<DType> FromProto(v1::Tensor::DType dtype);
v1::Tensor::DType ToProto(DType dtype);

// A shape as it comes from the wire. INVALID_ARGUMENT: as Shape::FromDims, or an unknown dimension where `known`.
absl::StatusOr<Shape> ShapeFromProto(const google::protobuf::RepeatedField<int64_t>& dims, bool known);

// The shape and the type of an array, as far as each is known. Errors are those of ShapeFromProto and FromProto.
absl::StatusOr<Shape> ShapeOf(const v1::ArrayType& type);
absl::StatusOr<DType> DTypeFromProto(const v1::ArrayType& type);
void TypeToProto(const Shape& shape, DType dtype, v1::ArrayType* type);

// The tensor of a request, in memory of the CPU: not to be written, as it may lie in the request.
// INVALID_ARGUMENT: says what was expected and what came. RESOURCE_EXHAUSTED: as `host.Allocate`, before any value is made.
absl::StatusOr<Tensor> DecodeTensor(const v1::Tensor& proto, const Attachments& attachments, Allocator& host);

// The same of the bytes in a `bytes` field, and of the elements in a repeated field, which `field` names in errors. `tensor`
// lies on the CPU.
absl::StatusOr<Tensor> DecodeRaw(const std::string& raw, absl::string_view field, const Shape& shape, DType dtype,
                                 const Attachments& attachments, Allocator& host);
// INVALID_ARGUMENT: a byte of a tensor of truth values is neither 0 nor 1.
absl::Status CheckBools(const Tensor& tensor);
template <class From>
absl::Status DecodeField(const google::protobuf::RepeatedField<From>& values, absl::string_view field, const Tensor& tensor);

// Whether values come as raw bytes; the reply's form follows it where OutputEncoding is AUTO.
inline bool IsRaw(const v1::Tensor& proto) { return !proto.raw().empty(); }

// Shape, dtype and values of a tensor on the CPU in the given form: RAW, TYPED or STATISTICS. The reply may refer to the
// tensor's memory, which therefore must not be written any more. RESOURCE_EXHAUSTED: as TYPED it takes more than
// `*bytes_left`, from which its bytes are subtracted.
absl::Status EncodeTensor(const Tensor& tensor, v1::Tensor::Encoding form, int64_t* bytes_left, v1::Tensor* proto,
                          Attachments* attachments);

}  // namespace gluond::server

#endif  // SERVER_CODEC_TENSOR_CODEC_H_
