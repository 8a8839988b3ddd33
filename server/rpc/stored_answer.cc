#include "server/rpc/stored_answer.h"

#include <memory>

#include "engine/core/dtype.h"
#include "gluond/v1/tensor.pb.h"
#include "google/protobuf/descriptor.h"
#include "server/codec/tensor_statistics.h"

namespace gluond::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kLargestKept = 64 << 10;

// Bytes that the tensor's typed values take.
size_t TypedBytes(const v1::Tensor& tensor) {
  return 4 * static_cast<size_t>(tensor.float_data_size() + tensor.int_data_size()) +
         8 * static_cast<size_t>(tensor.double_data_size() + tensor.int64_data_size()) +
         static_cast<size_t>(tensor.bool_data_size());
}

// The little-endian bytes of typed values, as `raw` would have them.
std::string RawOf(const v1::Tensor& tensor, DType dtype) {
  std::string raw;
  const auto append = [&](const auto& values, auto narrow) {
    for (const auto value : values) {
      const auto element = narrow(value);
      raw.append(reinterpret_cast<const char*>(&element), sizeof(element));
    }
  };
  switch (dtype) {
    case DType::kFloat16: append(tensor.float_data(), [](float v) { return Half(v); }); break;
    case DType::kBfloat16: append(tensor.float_data(), [](float v) { return BFloat16(v); }); break;
    case DType::kUint8:
    case DType::kInt8: append(tensor.int_data(), [](int32_t v) { return static_cast<int8_t>(v); }); break;
    case DType::kFloat64: append(tensor.double_data(), [](double v) { return v; }); break;
    case DType::kInt32: append(tensor.int_data(), [](int32_t v) { return v; }); break;
    case DType::kInt64: append(tensor.int64_data(), [](int64_t v) { return v; }); break;
    case DType::kBool: append(tensor.bool_data(), [](bool v) { return v; }); break;
    default: append(tensor.float_data(), [](float v) { return v; });
  }
  return raw;
}

// The tensor with its values, or with statistics when they are large.
void Shrink(v1::Tensor* tensor, const Attachments& attachments) {
  const auto dtype = static_cast<DType>(tensor->dtype());
  const Bytes raw = attachments.Get(tensor->raw());
  v1::Tensor kept;
  kept.set_dtype(tensor->dtype());
  *kept.mutable_shape() = tensor->shape();
  if (raw.size() > kLargestKept) {
    *kept.mutable_statistics() = TensorStatistics(dtype, raw);
  } else if (TypedBytes(*tensor) > kLargestKept) {
    *kept.mutable_statistics() = TensorStatistics(dtype, Bytes(RawOf(*tensor, dtype)));
  } else if (attachments.Find(tensor->raw()) != nullptr) {
    kept.mutable_raw()->resize(raw.size());
    raw.CopyTo(kept.mutable_raw()->data());
  } else {
    return;
  }
  *tensor = std::move(kept);
}

}  // namespace

std::string ToStoredAnswer(const Message& response, const Attachments& attachments, Method::Field replayed) {
  const std::unique_ptr<Message> kept(response.New());
  kept->CopyFrom(response);
  const Reflection& reflection = *kept->GetReflection();
  reflection.SetBool(kept.get(), replayed, true);
  for (int i = 0; i < kept->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = kept->GetDescriptor()->field(i);
    if (!field->is_map() || field->message_type()->map_value()->message_type() != v1::Tensor::descriptor()) continue;
    for (int j = 0; j < reflection.FieldSize(*kept, field); ++j) {
      Message* entry = reflection.MutableRepeatedMessage(kept.get(), field, j);
      Message* value = entry->GetReflection()->MutableMessage(entry, field->message_type()->map_value());
      Shrink(static_cast<v1::Tensor*>(value), attachments);
    }
  }
  return kept->SerializeAsString();
}

}  // namespace gluond::server
