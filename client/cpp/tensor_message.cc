#include "client/cpp/tensor_message.h"

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

grpc::Slice SliceOf(std::shared_ptr<const std::string> bytes) {
  char* const data = const_cast<char*>(bytes->data());
  const size_t size = bytes->size();
  auto* kept = new std::shared_ptr<const std::string>(std::move(bytes));
  return grpc::Slice(
      data, size, [](void* p) { delete static_cast<std::shared_ptr<const std::string>*>(p); }, kept);
}

}  // namespace

grpc::ByteBuffer WithTensors(const google::protobuf::Message& message, int field, const Tensors& tensors) {
  std::vector<grpc::Slice> slices;
  std::string text = message.SerializeAsString();
  for (const auto& [name, tensor] : tensors) {
    // From the inside out, since each head holds the length of the bytes after it.
    std::string value = tensor.ToProtoWithoutBytes().SerializeAsString();
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
