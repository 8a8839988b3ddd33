#include "client/cpp/tensor.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/status_macros.h"

static_assert(std::endian::native == std::endian::little, "Tensor bytes are little-endian.");

namespace gluond::client {
namespace {

absl::StatusOr<int64_t> ByteSize(DType dtype, const Shape& shape) {
  int64_t size = ElementSize(dtype);
  if (size == 0) return absl::InvalidArgumentError(absl::StrCat("Tensor: unknown dtype ", dtype));
  // A shape with a 0 is empty, however large its other dimensions are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(size, d, &size)) {
      return absl::InvalidArgumentError(absl::StrCat("Tensor: no tensor has the shape ", ToString(shape)));
    }
  }
  return size;
}

template <class T, class Field>
std::string Pack(const Field& field) {
  std::vector<T> values(field.begin(), field.end());
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Half types: typed replies carry them as float, which the client leaves in their own bytes.
uint16_t ToBfloat16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

// Exact for every float that came from a half.
uint16_t ToFloat16(float value) {
  const _Float16 half = static_cast<_Float16>(value);
  return std::bit_cast<uint16_t>(half);
}

template <class Convert>
std::string PackHalf(const google::protobuf::RepeatedField<float>& field, Convert convert) {
  std::vector<uint16_t> values(field.size());
  std::transform(field.begin(), field.end(), values.begin(), convert);
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 2);
}

std::string PackTyped(const v1::Tensor& proto) {
  switch (proto.dtype()) {
    case v1::Tensor::FLOAT32: return Pack<float>(proto.float_data());
    case v1::Tensor::FLOAT64: return Pack<double>(proto.double_data());
    case v1::Tensor::FLOAT16: return PackHalf(proto.float_data(), ToFloat16);
    case v1::Tensor::BFLOAT16: return PackHalf(proto.float_data(), ToBfloat16);
    case v1::Tensor::UINT8: return Pack<uint8_t>(proto.int_data());
    case v1::Tensor::INT8: return Pack<int8_t>(proto.int_data());
    case v1::Tensor::INT32: return Pack<int32_t>(proto.int_data());
    case v1::Tensor::INT64: return Pack<int64_t>(proto.int64_data());
    case v1::Tensor::BOOL: return Pack<uint8_t>(proto.bool_data());
    default: return "";
  }
}

}  // namespace

int64_t ElementSize(DType dtype) {
  switch (dtype) {
    case v1::Tensor::UINT8:
    case v1::Tensor::INT8:
    case v1::Tensor::BOOL: return 1;
    case v1::Tensor::FLOAT16:
    case v1::Tensor::BFLOAT16: return 2;
    case v1::Tensor::FLOAT32:
    case v1::Tensor::INT32: return 4;
    case v1::Tensor::FLOAT64:
    case v1::Tensor::INT64: return 8;
    default: return 0;
  }
}

std::string ToString(const Shape& shape) { return absl::StrCat("(", absl::StrJoin(shape, ", "), ")"); }

absl::StatusOr<Tensor> Tensor::FromBytes(DType dtype, Shape shape, std::string bytes) {
  CLIENT_ASSIGN_OR_RETURN(const int64_t size, ByteSize(dtype, shape));
  if (size != static_cast<int64_t>(bytes.size())) {
    return absl::InvalidArgumentError(absl::StrCat("Tensor: ", v1::Tensor::DType_Name(dtype), " of shape ", ToString(shape),
                                                   " has ", size, " bytes, got ", bytes.size()));
  }
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.bytes_ = std::make_shared<const std::string>(std::move(bytes));
  return tensor;
}

absl::StatusOr<Tensor> Tensor::FromProto(v1::Tensor proto) {
  if (proto.has_statistics()) {
    return absl::InvalidArgumentError("Tensor: the reply holds statistics and no values");
  }
  Shape shape(proto.shape().begin(), proto.shape().end());
  std::string bytes = proto.raw().empty() ? PackTyped(proto) : std::move(*proto.mutable_raw());
  return FromBytes(proto.dtype(), std::move(shape), std::move(bytes));
}

v1::Tensor Tensor::ToProto() const {
  v1::Tensor proto = ToProtoWithoutBytes();
  proto.set_raw(*bytes_);
  return proto;
}

v1::Tensor Tensor::ToProtoWithoutBytes() const {
  v1::Tensor proto;
  proto.mutable_shape()->Add(shape_.begin(), shape_.end());
  proto.set_dtype(dtype_);
  return proto;
}

std::shared_ptr<const std::string> Tensor::NoBytes() {
  static const auto& none = *new auto(std::make_shared<const std::string>());
  return none;
}

absl::Status Tensor::WrongType(DType wanted) const {
  return absl::InvalidArgumentError(
      absl::StrCat("Tensor: holds ", v1::Tensor::DType_Name(dtype_), ", read as ", v1::Tensor::DType_Name(wanted)));
}

absl::StatusOr<Tensors> FromProto(google::protobuf::Map<std::string, v1::Tensor>* map) {
  Tensors tensors;
  for (auto& [name, proto] : *map) {
    absl::StatusOr<Tensor> tensor = Tensor::FromProto(std::move(proto));
    if (!tensor.ok()) {
      return absl::Status(tensor.status().code(), absl::StrCat(name, ": ", tensor.status().message()));
    }
    tensors.emplace(name, *std::move(tensor));
  }
  return tensors;
}

}  // namespace gluond::client
