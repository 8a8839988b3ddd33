#include "engine/store/safetensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/store/json.h"

namespace gluond {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // The Python package's own limit.
constexpr char kMetadata[] = "__metadata__";

constexpr std::pair<const char*, DType> kTypes[] = {{"F32", DType::kFloat32},   {"F64", DType::kFloat64}, {"F16", DType::kFloat16},
                                                    {"BF16", DType::kBfloat16}, {"U8", DType::kUint8},    {"I8", DType::kInt8},
                                                    {"I32", DType::kInt32},     {"I64", DType::kInt64},   {"BOOL", DType::kBool}};

const char* TypeText(DType dtype) {
  for (const auto& [text, type] : kTypes)
    if (type == dtype) return text;
  return "";
}

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("safetensors: ", what)); }

struct Entry {
  std::string name;
  Shape shape;
  DType dtype = DType::kUnknown;
  uint64_t begin = 0, end = 0;
};

absl::StatusOr<Entry> ReadEntry(const std::string& name, const Json& json) {
  Entry entry;
  entry.name = name;
  std::string type;
  RETURN_IF_ERROR(json.Get("dtype", &type));
  for (const auto& [text, dtype] : kTypes)
    if (type == text) entry.dtype = dtype;
  if (entry.dtype == DType::kUnknown) return Wrong(absl::StrCat("unknown dtype '", Excerpt(type), "'"));
  ASSIGN_OR_RETURN(const Json* shape, json.GetChild("shape", Json::kArray));
  std::vector<int64_t> dims;
  for (const Json& dim : shape->elements()) {
    RETURN_IF_ERROR(dim.Get(&dims.emplace_back()));
    if (dims.back() < 0) return Wrong("a negative dimension");
  }
  ASSIGN_OR_RETURN(entry.shape, Shape::FromDims(dims));
  ASSIGN_OR_RETURN(const Json* offsets, json.GetChild("data_offsets", Json::kArray));
  if (offsets->elements().size() != 2) return Wrong("data_offsets wants two numbers");
  RETURN_IF_ERROR(offsets->elements()[0].Get(&entry.begin));
  RETURN_IF_ERROR(offsets->elements()[1].Get(&entry.end));
  ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(entry.shape, SizeOf(entry.dtype)));
  if (entry.end < entry.begin || entry.end - entry.begin != static_cast<uint64_t>(bytes)) {
    return Wrong(absl::StrCat("data_offsets [", entry.begin, ", ", entry.end, "] do not hold ", bytes, " bytes"));
  }
  return entry;
}

// The entries in the order of their bytes, which fill [0, size) without gaps or overlaps.
absl::StatusOr<std::vector<const Entry*>> OrderByOffset(const std::vector<Entry>& entries, uint64_t size) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  uint64_t at = 0;
  for (const Entry* entry : order) {
    if (entry->begin != at) {
      return Wrong(absl::StrCat("tensor '", Excerpt(entry->name), "' begins at ", entry->begin, ", expected ", at));
    }
    at = entry->end;
  }
  if (at != size) return Wrong(absl::StrCat("the tensors take ", at, " bytes, the file has ", size));
  return order;
}

absl::StatusOr<std::vector<Entry>> ReadHeader(absl::string_view text, AttrDict* metadata) {
  absl::StatusOr<Json> header = Json::Parse(text, /*max_depth=*/4);
  if (!header.ok()) return Wrong(absl::StrCat("the header: ", header.status().message()));
  if (header->kind() != Json::kObject) return Wrong("the header is not an object");
  std::vector<Entry> entries;
  for (const auto& [name, json] : header->members()) {
    if (name == kMetadata) {
      if (json.kind() != Json::kObject) return Wrong("__metadata__ is not an object");
      for (const auto& [key, value] : json.members()) {
        RETURN_IF_ERROR(Annotate(value.Get(&(*metadata)[key]), "safetensors: __metadata__"));
      }
      continue;
    }
    absl::StatusOr<Entry> entry = ReadEntry(name, json);
    if (!entry.ok()) return Annotate(entry.status(), absl::StrCat("tensor '", Excerpt(name), "'"));
    entries.push_back(*std::move(entry));
  }
  return entries;
}

absl::Status CheckNames(const NamedTensors& tensors) {
  absl::flat_hash_set<absl::string_view> names = {kMetadata};
  for (const NamedTensor& named : tensors) {
    if (!names.insert(named.name).second) {
      return Wrong(absl::StrCat("the name '", Excerpt(named.name), "' is ", named.name == kMetadata ? "reserved" : "there twice"));
    }
  }
  return absl::OkStatus();
}

// Large elements first, so that each tensor begins at a multiple of its element's size: readers map the file.
std::vector<size_t> OrderBySize(const NamedTensors& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return SizeOf(tensors[a].tensor.dtype()) > SizeOf(tensors[b].tensor.dtype()); });
  return order;
}

Json ToJson(const Tensor& tensor, uint64_t begin) {
  Json shape = Json::Array();
  for (int64_t dim : tensor.shape().dims()) shape.Append(dim);
  Json offsets = Json::Array();
  offsets.Append(begin);
  offsets.Append(begin + tensor.bytes());
  Json entry = Json::Object();
  entry.Set("dtype", TypeText(tensor.dtype()));
  entry.Set("shape", std::move(shape));
  entry.Set("data_offsets", std::move(offsets));
  return entry;
}

}  // namespace

absl::Status WriteSafetensors(const NamedTensors& tensors, const AttrDict& metadata,
                              const std::function<absl::Status(absl::string_view)>& append) {
  RETURN_IF_ERROR(CheckNames(tensors));
  const std::vector<size_t> order = OrderBySize(tensors);
  std::vector<uint64_t> begin(tensors.size());
  uint64_t at = 0;
  for (size_t i : order) begin[i] = std::exchange(at, at + tensors[i].tensor.bytes());

  Json header = Json::Object();
  if (!metadata.empty()) {
    Json strings = Json::Object();
    for (const auto& [key, value] : metadata) strings.Set(key, value);
    header.Set(kMetadata, std::move(strings));
  }
  for (size_t i = 0; i < tensors.size(); ++i) header.Set(tensors[i].name, ToJson(tensors[i].tensor, begin[i]));
  std::string text = header.Dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // The bytes begin at a multiple of 8.
  const uint64_t length = text.size();
  if (length > kMaxHeader) {
    return absl::ResourceExhaustedError(absl::StrCat("safetensors: the header of ", tensors.size(), " tensors takes ", length,
                                                     " bytes, at most ", kMaxHeader, " are allowed"));
  }
  RETURN_IF_ERROR(append(absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length))));
  RETURN_IF_ERROR(append(text));
  for (size_t i : order) {
    const Tensor& tensor = tensors[i].tensor;
    if (tensor.bytes() > 0) RETURN_IF_ERROR(append(absl::string_view(tensor.data<char>(), tensor.bytes())));
  }
  return absl::OkStatus();
}

bool FitsSafetensors(const Tensor& tensor) {
  if (tensor.dtype() != DType::kBool || tensor.bytes() == 0) return true;
  const uint8_t* const data = tensor.data<uint8_t>();
  return std::all_of(data, data + tensor.bytes(), [](uint8_t byte) { return byte <= 1; });
}

absl::StatusOr<Safetensors> ReadSafetensors(uint64_t size, const std::function<absl::Status(void*, size_t)>& read,
                                            Allocator& host_allocator) {
  uint64_t length;
  if (size < sizeof(length)) return Wrong(absl::StrCat("the file has only ", size, " bytes"));
  RETURN_IF_ERROR(read(&length, sizeof(length)));
  size -= sizeof(length);
  if (length > size || length > kMaxHeader) {
    return Wrong(absl::StrCat("the header has ", length, " bytes; ", size, " follow, and at most ", kMaxHeader, " are allowed"));
  }
  std::string text(length, '\0');
  RETURN_IF_ERROR(read(text.data(), length));

  Safetensors file;
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, ReadHeader(text, &file.metadata));
  ASSIGN_OR_RETURN(const std::vector<const Entry*> order, OrderByOffset(entries, size - length));
  for (const Entry& entry : entries) {
    ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(host_allocator, entry.shape, entry.dtype));
    file.tensors.push_back({entry.name, std::move(tensor)});
  }
  for (const Entry* entry : order) {
    const Tensor& tensor = file.tensors[static_cast<size_t>(entry - entries.data())].tensor;
    if (tensor.bytes() == 0) continue;
    RETURN_IF_ERROR(read(tensor.data(), tensor.bytes()));
    if (!FitsSafetensors(tensor)) {
      return Wrong(absl::StrCat("tensor '", Excerpt(entry->name), "': a bool is neither 0 nor 1"));
    }
  }
  return file;
}

absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view bytes, Allocator& host_allocator) {
  const auto read = [bytes](void* to, size_t count) mutable {
    if (count > 0) std::memcpy(to, bytes.data(), count);
    bytes.remove_prefix(count);
    return absl::OkStatus();
  };
  return ReadSafetensors(bytes.size(), read, host_allocator);
}

}  // namespace gluond
