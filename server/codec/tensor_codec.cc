#include "server/codec/tensor_codec.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "server/codec/tensor_fill.h"
#include "server/codec/tensor_statistics.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

// The forms in which a tensor's values came: exactly one, unless it has no elements.
std::string Forms(const v1::Tensor& proto, int* count) {
  std::string forms;
  *count = 0;
  const auto add = [&](bool present, const char* name) {
    if (!present) return;
    absl::StrAppend(&forms, ++*count > 1 ? " and " : "", name);
  };
  add(!proto.raw().empty(), "raw");
  add(proto.float_data_size() > 0, "float_data");
  add(proto.double_data_size() > 0, "double_data");
  add(proto.int_data_size() > 0, "int_data");
  add(proto.int64_data_size() > 0, "int64_data");
  add(proto.bool_data_size() > 0, "bool_data");
  add(proto.has_fill(), "fill");
  return forms;
}

// Whether `value` can be held by T: exactly, where T is an integer.
template <class T, class From>
bool Holds(From value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value == From(0) || value == From(1);
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>) {
    return value >= static_cast<From>(std::numeric_limits<T>::min()) &&
           value < std::ldexp(From(1), std::numeric_limits<T>::digits) && value == std::floor(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<int64_t>(value) >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
           static_cast<int64_t>(value) <= static_cast<int64_t>(std::numeric_limits<T>::max());
  } else {
    return true;
  }
}

// A tensor in the request's own memory, which it keeps alive; none when the bytes are in pieces or not aligned.
Tensor Alias(const Slices* slices, const Shape& shape, DType dtype) {
  if (slices == nullptr || slices->size() != 1) return {};
  auto slice = std::make_shared<grpc::Slice>((*slices)[0]);
  if (reinterpret_cast<uintptr_t>(slice->begin()) % static_cast<uintptr_t>(SizeOf(dtype)) != 0) return {};
  void* data = const_cast<uint8_t*>(slice->begin());
  const size_t bytes = slice->size();
  return Tensor(std::make_shared<Buffer>(data, bytes, Device(), [slice] {}), 0, shape, dtype);
}

// A slice of a reply, which keeps the tensor's memory alive.
grpc::Slice SliceOf(const Tensor& tensor) {
  return grpc::Slice(
      tensor.data(), tensor.bytes(), [](void* kept) { delete static_cast<Tensor*>(kept); }, new Tensor(tensor));
}

template <class T, class To>
void AppendAll(const Tensor& tensor, google::protobuf::RepeatedField<To>* field) {
  field->Reserve(static_cast<int>(tensor.Size()));
  const T* values = tensor.data<T>();
  for (int64_t i = 0; i < tensor.Size(); ++i) field->AddAlreadyReserved(static_cast<To>(values[i]));
}

void EncodeTyped(const Tensor& tensor, v1::Tensor* proto) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return AppendAll<float>(tensor, proto->mutable_float_data());
    case DType::kFloat16: return AppendAll<Half>(tensor, proto->mutable_float_data());
    case DType::kBfloat16: return AppendAll<BFloat16>(tensor, proto->mutable_float_data());
    case DType::kFloat64: return AppendAll<double>(tensor, proto->mutable_double_data());
    case DType::kUint8: return AppendAll<uint8_t>(tensor, proto->mutable_int_data());
    case DType::kInt8: return AppendAll<int8_t>(tensor, proto->mutable_int_data());
    case DType::kInt32: return AppendAll<int32_t>(tensor, proto->mutable_int_data());
    case DType::kInt64: return AppendAll<int64_t>(tensor, proto->mutable_int64_data());
    case DType::kBool: return AppendAll<bool>(tensor, proto->mutable_bool_data());
    case DType::kUnknown: return;
  }
}

// Bytes on the wire that an element takes at least, as a typed value.
int64_t LeastTypedBytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return 8;
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBfloat16: return 4;
    default: return 1;
  }
}

}  // namespace

absl::StatusOr<DType> FromProto(v1::Tensor::DType dtype) {
  if (v1::Tensor::DType_IsValid(dtype)) return static_cast<DType>(dtype);  // Both use MXNet's numbers.
  return Invalid("dtype ", static_cast<int>(dtype), " does not exist");
}

v1::Tensor::DType ToProto(DType dtype) { return static_cast<v1::Tensor::DType>(dtype); }

absl::StatusOr<Shape> ShapeFromProto(const google::protobuf::RepeatedField<int64_t>& dims, bool known) {
  ASSIGN_OR_RETURN(Shape shape, Shape::FromDims({dims.data(), static_cast<size_t>(dims.size())}));
  if (known && !shape.known()) return Invalid("shape ", shape.ToString(), " has a negative dimension");
  return shape;
}

absl::StatusOr<Shape> ShapeOf(const v1::ArrayType& type) {
  if (!type.has_shape()) return Shape();
  return ShapeFromProto(type.shape(), /*known=*/false);
}

absl::StatusOr<DType> DTypeFromProto(const v1::ArrayType& type) {
  if (!type.has_dtype()) return DType::kUnknown;
  return FromProto(type.dtype());
}

void TypeToProto(const Shape& shape, DType dtype, v1::ArrayType* type) {
  type->set_has_shape(shape.rank_known());
  for (const int64_t dim : shape.dims()) type->add_shape(dim);
  if (dtype != DType::kUnknown) type->set_dtype(ToProto(dtype));
}

absl::Status CheckBools(const Tensor& tensor) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.data());
  for (int64_t i = 0; i < tensor.Size(); ++i) {
    if (bytes[i] > 1) return Invalid("raw byte ", i, " of a bool tensor is ", int{bytes[i]}, "; want 0 or 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> DecodeRaw(const std::string& raw, absl::string_view field, const Shape& shape, DType dtype,
                                 const Attachments& attachments, Allocator& host) {
  ASSIGN_OR_RETURN(const int64_t want, CheckedBytes(shape, SizeOf(dtype)));
  const Bytes bytes = attachments.Get(raw);
  if (bytes.size() != static_cast<size_t>(want)) {
    return Invalid("shape ", shape.ToString(), " of ", Name(dtype), " takes ", want, " bytes, but ", field, " has ", bytes.size());
  }
  Tensor tensor = Alias(attachments.Find(raw), shape, dtype);
  if (!tensor.defined()) {
    ASSIGN_OR_RETURN(tensor, Tensor::Empty(host, shape, dtype));
    bytes.CopyTo(tensor.data());
  }
  if (dtype == DType::kBool) RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

template <class From>
absl::Status DecodeField(const google::protobuf::RepeatedField<From>& values, absl::string_view field, const Tensor& tensor) {
  if (values.size() != tensor.Size()) {
    return Invalid("shape ", tensor.shape().ToString(), " has ", tensor.Size(), " elements, but ", field, " has ", values.size());
  }
  return DispatchType(tensor.dtype(), [&](auto t) {
    using T = decltype(t);
    T* out = tensor.data<T>();
    for (int i = 0; i < values.size(); ++i) {
      if (!Holds<T>(values[i])) return Invalid(field, "[", i, "] is ", values[i], ", which ", Name(tensor.dtype()), " cannot hold");
      out[i] = Convert<T>(values[i]);
    }
    return absl::OkStatus();
  });
}

template absl::Status DecodeField(const google::protobuf::RepeatedField<bool>&, absl::string_view, const Tensor&);
template absl::Status DecodeField(const google::protobuf::RepeatedField<int32_t>&, absl::string_view, const Tensor&);
template absl::Status DecodeField(const google::protobuf::RepeatedField<uint32_t>&, absl::string_view, const Tensor&);
template absl::Status DecodeField(const google::protobuf::RepeatedField<int64_t>&, absl::string_view, const Tensor&);
template absl::Status DecodeField(const google::protobuf::RepeatedField<float>&, absl::string_view, const Tensor&);
template absl::Status DecodeField(const google::protobuf::RepeatedField<double>&, absl::string_view, const Tensor&);

absl::StatusOr<Tensor> DecodeTensor(const v1::Tensor& proto, const Attachments& attachments, Allocator& host) {
  ASSIGN_OR_RETURN(const DType dtype, FromProto(proto.dtype()));
  ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(proto.shape(), /*known=*/true));
  ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(shape, SizeOf(dtype)));
  if (proto.has_statistics()) return Invalid("statistics are for replies; send values");
  int count = 0;
  const std::string forms = Forms(proto, &count);
  if (count > 1 || (count == 0 && bytes > 0)) {
    return Invalid("want values in one form for shape ", shape.ToString(), ", got ", count == 0 ? "none" : forms,
                   "; set raw, fill, or one of float_data, double_data, int_data, int64_data, bool_data");
  }
  if (!proto.raw().empty()) return DecodeRaw(proto.raw(), "raw", shape, dtype, attachments, host);
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(host, shape, dtype));
  absl::Status status;
  if (proto.has_fill()) status = FillTensor(proto.fill(), tensor);
  if (proto.float_data_size() > 0) status = DecodeField(proto.float_data(), "float_data", tensor);
  if (proto.double_data_size() > 0) status = DecodeField(proto.double_data(), "double_data", tensor);
  if (proto.int_data_size() > 0) status = DecodeField(proto.int_data(), "int_data", tensor);
  if (proto.int64_data_size() > 0) status = DecodeField(proto.int64_data(), "int64_data", tensor);
  if (proto.bool_data_size() > 0) status = DecodeField(proto.bool_data(), "bool_data", tensor);
  RETURN_IF_ERROR(status);
  return tensor;
}

absl::Status EncodeTensor(const Tensor& tensor, v1::Tensor::Encoding form, int64_t* bytes_left, v1::Tensor* proto,
                          Attachments* attachments) {
  for (const int64_t dim : tensor.shape()) proto->add_shape(dim);
  proto->set_dtype(ToProto(tensor.dtype()));
  const absl::string_view bytes(static_cast<const char*>(tensor.data()), tensor.bytes());
  if (form == v1::Tensor::STATISTICS) {
    *proto->mutable_statistics() = TensorStatistics(tensor.dtype(), Bytes(bytes));
  } else if (form == v1::Tensor::TYPED) {
    const int64_t least = LeastTypedBytes(tensor.dtype());
    if (tensor.Size() > *bytes_left / least) {  // Before they are copied.
      return OverLimit("--max_message_bytes", "a tensor of shape ", tensor.shape().ToString(), " takes ", least,
                       " bytes or more for each of its ", tensor.Size(), " values as TYPED, and --max_message_bytes leaves ",
                       *bytes_left, "; ask for STATISTICS, for RAW, or for less at once");
    }
    *bytes_left -= tensor.Size() * least;
    EncodeTyped(tensor, proto);
  } else if (bytes.size() < kAttachmentBytes) {
    proto->set_raw(bytes.data(), bytes.size());
  } else {
    proto->set_raw(attachments->Add(SliceOf(tensor)));
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
