#include "client/cpp/tensor_message.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace gluond::client {
namespace {

using google::protobuf::internal::WireFormatLite;

template <class T, class Field>
std::string Pack(const Field& field) {
  std::vector<T> values(field.begin(), field.end());
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Typed replies carry half types as float, which the client leaves in their own bytes.
template <class Half>
std::string PackHalf(const google::protobuf::RepeatedField<float>& field) {
  std::vector<uint16_t> values(field.size());
  std::transform(field.begin(), field.end(), values.begin(), [](float value) { return Half(value).bits(); });
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 2);
}

std::string PackTyped(const v1::Tensor& proto) {
  switch (proto.dtype()) {
    case v1::Tensor::FLOAT32: return Pack<float>(proto.float_data());
    case v1::Tensor::FLOAT64: return Pack<double>(proto.double_data());
    case v1::Tensor::FLOAT16: return PackHalf<Float16>(proto.float_data());
    case v1::Tensor::BFLOAT16: return PackHalf<Bfloat16>(proto.float_data());
    case v1::Tensor::UINT8: return Pack<uint8_t>(proto.int_data());
    case v1::Tensor::INT8: return Pack<int8_t>(proto.int_data());
    case v1::Tensor::INT32: return Pack<int32_t>(proto.int_data());
    case v1::Tensor::INT64: return Pack<int64_t>(proto.int64_data());
    case v1::Tensor::BOOL: return Pack<uint8_t>(proto.bool_data());
    default: return "";
  }
}

// Fields of a map's entry, as protobuf defines them.
constexpr int kKey = 1, kValue = 2;

void AppendVarint(uint64_t value, std::string* out) {
  uint8_t bytes[10];
  const uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

// The tag and the length before a field's bytes.
std::string Head(int field, size_t length) {
  std::string head;
  AppendVarint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), &head);
  AppendVarint(length, &head);
  return head;
}

v1::Tensor WithoutBytes(const Tensor& tensor) {
  v1::Tensor proto;
  proto.mutable_shape()->Add(tensor.shape().begin(), tensor.shape().end());
  proto.set_dtype(ToProto(tensor.dtype()));
  return proto;
}

grpc::Slice SliceOf(std::shared_ptr<const std::string> bytes) {
  char* const data = const_cast<char*>(bytes->data());
  const size_t size = bytes->size();
  auto* kept = new std::shared_ptr<const std::string>(std::move(bytes));
  return grpc::Slice(
      data, size, [](void* p) { delete static_cast<std::shared_ptr<const std::string>*>(p); }, kept);
}

}  // namespace

absl::StatusOr<Tensor> FromProto(v1::Tensor proto) {
  if (proto.has_statistics()) {
    return absl::InvalidArgumentError("Tensor: the reply holds statistics and no values");
  }
  Shape shape(proto.shape().begin(), proto.shape().end());
  std::string bytes = proto.raw().empty() ? PackTyped(proto) : std::move(*proto.mutable_raw());
  return Tensor::FromBytes(FromProto(proto.dtype()), std::move(shape), std::move(bytes));
}

v1::Tensor ToProto(const Tensor& tensor) {
  v1::Tensor proto = WithoutBytes(tensor);
  proto.set_raw(tensor.bytes().data(), tensor.bytes().size());
  return proto;
}

absl::StatusOr<Tensors> FromProto(google::protobuf::Map<std::string, v1::Tensor>* map) {
  Tensors tensors;
  for (auto& [name, proto] : *map) {
    absl::StatusOr<Tensor> tensor = FromProto(std::move(proto));
    if (!tensor.ok()) {
      return absl::Status(tensor.status().code(), absl::StrCat(name, ": ", tensor.status().message()));
    }
    tensors.emplace(name, *std::move(tensor));
  }
  return tensors;
}

grpc::ByteBuffer WithTensors(const google::protobuf::MessageLite& message, int field, const Tensors& tensors) {
  std::vector<grpc::Slice> slices;
  std::string text = message.SerializeAsString();
  for (const auto& [name, tensor] : tensors) {
    // From the inside out, since each head holds the length of the bytes after it.
    std::string value = WithoutBytes(tensor).SerializeAsString();
    value += Head(v1::Tensor::kRawFieldNumber, tensor.bytes().size());
    const std::string entry =
        absl::StrCat(Head(kKey, name.size()), name, Head(kValue, value.size() + tensor.bytes().size()), value);
    absl::StrAppend(&text, Head(field, entry.size() + tensor.bytes().size()), entry);
    slices.emplace_back(text);
    text.clear();
    slices.push_back(SliceOf(tensor.shared_bytes()));
  }
  if (!text.empty()) slices.emplace_back(text);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace gluond::client
