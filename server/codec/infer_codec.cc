#include "server/codec/infer_codec.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/core/convert.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "google/protobuf/descriptor.h"
#include "server/codec/tensor_codec.h"

namespace gluond::server {
namespace {

struct Datatype {
  DType dtype;
  const char* name;
  inference::DataType config;
};
constexpr Datatype kDatatypes[] = {
    {DType::kBool, "BOOL", inference::TYPE_BOOL},     {DType::kUint8, "UINT8", inference::TYPE_UINT8},
    {DType::kInt8, "INT8", inference::TYPE_INT8},     {DType::kInt32, "INT32", inference::TYPE_INT32},
    {DType::kInt64, "INT64", inference::TYPE_INT64},  {DType::kFloat16, "FP16", inference::TYPE_FP16},
    {DType::kBfloat16, "BF16", inference::TYPE_BF16}, {DType::kFloat32, "FP32", inference::TYPE_FP32},
    {DType::kFloat64, "FP64", inference::TYPE_FP64}};

const Datatype* Find(DType dtype) {
  for (const Datatype& each : kDatatypes) {
    if (each.dtype == dtype) return &each;
  }
  return nullptr;
}

absl::StatusOr<DType> ParseDatatype(absl::string_view name) {
  for (const Datatype& each : kDatatypes) {
    if (name == each.name) return each.dtype;
  }
  if (name == "BYTES") return Invalid("the datatype BYTES is no model's here; send numbers");
  return Invalid("there is no datatype '", Excerpt(name), "' here; want ",
                 absl::StrJoin(kDatatypes, ", ", [](std::string* out, const Datatype& each) { out->append(each.name); }));
}

using Contents = inference::InferTensorContents;

// The fields of `contents` that have elements, but for `except`.
std::string OtherFields(const Contents& contents, absl::string_view except) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  contents.GetReflection()->ListFields(contents, &fields);
  std::erase_if(fields, [except](const auto* field) { return field->name() == except; });
  return absl::StrJoin(fields, " and ", [](std::string* out, const auto* field) { out->append(field->name()); });
}

absl::StatusOr<Tensor> DecodeContents(const Contents& contents, const Shape& shape, DType dtype, Allocator& host) {
  const auto decode = [&](const auto& values, absl::string_view field) -> absl::StatusOr<Tensor> {
    if (const std::string others = OtherFields(contents, field); !others.empty()) {
      return Invalid(DatatypeOf(dtype), " values belong in ", field, ", but ", others, " has some");
    }
    if (values.size() != shape.Size()) {  // Before memory is taken.
      return Invalid("shape ", shape.ToString(), " has ", shape.Size(), " elements, but ", field, " has ", values.size());
    }
    ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(host, shape, dtype));
    RETURN_IF_ERROR(DecodeField(values, field, tensor));
    return tensor;
  };
  switch (dtype) {
    case DType::kBool: return decode(contents.bool_contents(), "bool_contents");
    case DType::kInt8:
    case DType::kInt32: return decode(contents.int_contents(), "int_contents");
    case DType::kInt64: return decode(contents.int64_contents(), "int64_contents");
    case DType::kUint8: return decode(contents.uint_contents(), "uint_contents");
    case DType::kFloat32: return decode(contents.fp32_contents(), "fp32_contents");
    case DType::kFloat64: return decode(contents.fp64_contents(), "fp64_contents");
    default: return Invalid(DatatypeOf(dtype), " values come in raw_input_contents only");
  }
}

absl::StatusOr<Tensor> DecodeShared(const SharedPlace& place, const Shape& shape, DType dtype, const CallersRegions& regions,
                                    Allocator& host) {
  ASSIGN_OR_RETURN(const int64_t want, CheckedBytes(shape, SizeOf(dtype)));
  if (place.byte_size != static_cast<uint64_t>(want)) {
    return Invalid("shape ", shape.ToString(), " of ", Name(dtype), " takes ", want, " bytes, but shared_memory_byte_size is ",
                   place.byte_size);
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(host, shape, dtype));
  RETURN_IF_ERROR(regions.Read(place.region, place.offset, tensor.bytes(), tensor.data()));
  if (dtype == DType::kBool) RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

// `raw`: the input's place among raw_input_contents, which have none for tensors in shared memory.
absl::StatusOr<Tensor> DecodeInput(const inference::ModelInferRequest& request, int index, int raw,
                                   const std::optional<SharedPlace>& place, const Attachments& attachments,
                                   const CallersRegions& regions, Allocator& host) {
  const auto& input = request.inputs(index);
  ASSIGN_OR_RETURN(const DType dtype, ParseDatatype(input.datatype()));
  ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(input.shape(), /*known=*/true));
  const std::string fields = OtherFields(input.contents(), "");
  if (place.has_value()) {
    if (fields.empty()) return DecodeShared(*place, shape, dtype, regions, host);
    return Invalid(fields, " and shared memory have values; send them in one of these ways");
  }
  if (request.raw_input_contents().empty()) return DecodeContents(input.contents(), shape, dtype, host);
  if (!fields.empty()) return Invalid(fields, " and raw_input_contents have values; send all inputs' values in one of these ways");
  return DecodeRaw(request.raw_input_contents(raw), absl::StrCat("raw_input_contents[", raw, "]"), shape, dtype, attachments, host);
}

absl::Status InInput(const inference::ModelInferRequest& request, int index, const absl::Status& status) {
  return InField(absl::StrCat("inputs[", index, "]"),
                 Annotate(status, absl::StrCat("input '", Excerpt(request.inputs(index).name()), "'")));
}

// The type in which values are compared and printed: the type has each value of T.
template <class T>
using Key = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

std::string ValueText(const Tensor& tensor, int64_t i) {
  return DispatchType(tensor.dtype(), [&](auto t) {
    using T = decltype(t);
    const auto value = Convert<Key<T>>(tensor.data<T>()[i]);
    return std::is_integral_v<T> ? absl::StrCat(value) : absl::StrFormat("%f", static_cast<double>(value));
  });
}

// Places of the largest values among [begin, begin + size), the largest first.
absl::Status Largest(const Tensor& tensor, int64_t begin, int64_t size, int64_t count, std::vector<int64_t>* places) {
  places->resize(static_cast<size_t>(size));
  std::iota(places->begin(), places->end(), int64_t{0});
  return DispatchType(tensor.dtype(), [&](auto t) {
    using T = decltype(t);
    const T* values = tensor.data<T>() + begin;
    const auto middle = places->begin() + std::min(size, count);
    const auto key = [values](int64_t i) {
      const auto value = Convert<Key<T>>(values[i]);
      if constexpr (!std::is_integral_v<T>) {  // NaN counts as the smallest: sorting wants an order.
        if (value != value) return -std::numeric_limits<double>::infinity();
      }
      return value;
    };
    std::partial_sort(places->begin(), middle, places->end(),
                      [&](int64_t a, int64_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
    places->erase(middle, places->end());
    return absl::OkStatus();
  });
}

inference::ModelInferResponse::InferOutputTensor& AddOutput(const std::string& name, absl::string_view datatype,
                                                            inference::ModelInferResponse* response) {
  auto& output = *response->add_outputs();
  output.set_name(name);
  output.set_datatype(std::string(datatype));
  return output;
}

}  // namespace

absl::string_view DatatypeOf(DType dtype) {
  const Datatype* const found = Find(dtype);
  return found == nullptr ? "" : found->name;
}

inference::DataType ConfigTypeOf(DType dtype) {
  const Datatype* const found = Find(dtype);
  return found == nullptr ? inference::TYPE_INVALID : found->config;
}

absl::StatusOr<uint64_t> Natural(absl::string_view name, const inference::InferParameter& parameter) {
  using inference::InferParameter;
  if (parameter.parameter_choice_case() == InferParameter::kUint64Param) return parameter.uint64_param();
  if (parameter.parameter_choice_case() == InferParameter::kInt64Param && parameter.int64_param() >= 0) {
    return static_cast<uint64_t>(parameter.int64_param());
  }
  return InField(absl::StrCat("parameters[\"", name, "\"]"),
                 Invalid("the parameter '", name, "' wants a number of 0 or more, in int64_param or uint64_param"));
}

absl::StatusOr<std::optional<SharedPlace>> ReadSharedPlace(const Parameters& parameters, const CallersRegions& regions) {
  constexpr char kRegion[] = "shared_memory_region", kOffset[] = "shared_memory_offset", kSize[] = "shared_memory_byte_size";
  const auto region = parameters.find(kRegion), offset = parameters.find(kOffset), size = parameters.find(kSize);
  if (region == parameters.end() && offset == parameters.end() && size == parameters.end()) return std::nullopt;
  if (!regions.any()) {
    return Invalid(
        "this server takes and gives no values by shared memory (--shared_memory); send them in raw_input_contents, and take them "
        "from the answer");
  }
  if (region == parameters.end() || size == parameters.end()) {
    return Invalid("a tensor in shared memory wants both shared_memory_region and shared_memory_byte_size");
  }
  if (!region->second.has_string_param()) return Invalid("the parameter 'shared_memory_region' wants a name, in string_param");
  SharedPlace place{.region = region->second.string_param()};
  ASSIGN_OR_RETURN(place.byte_size, Natural(kSize, size->second));
  if (offset != parameters.end()) {
    ASSIGN_OR_RETURN(place.offset, Natural(kOffset, offset->second));
  }
  return place;
}

absl::StatusOr<NamedTensors> DecodeInferInputs(const inference::ModelInferRequest& request, const Attachments& attachments,
                                               const CallersRegions& regions, Allocator& host) {
  std::vector<std::optional<SharedPlace>> places;
  int sent = 0;
  for (int i = 0; i < request.inputs_size(); ++i) {
    absl::StatusOr<std::optional<SharedPlace>> place = ReadSharedPlace(request.inputs(i).parameters(), regions);
    if (!place.ok()) return InInput(request, i, place.status());
    sent += !place->has_value();
    places.push_back(*std::move(place));
  }
  if (const int raw = request.raw_input_contents_size(); raw > 0 && raw != sent) {
    return InField("raw_input_contents",
                   Invalid("raw_input_contents has ", raw, " entries for ", sent, " inputs; want one for each"));
  }
  NamedTensors inputs;
  int raw = 0;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const std::optional<SharedPlace>& place = places[static_cast<size_t>(i)];
    absl::StatusOr<Tensor> tensor = DecodeInput(request, i, raw, place, attachments, regions, host);
    if (!tensor.ok()) return InInput(request, i, tensor.status());
    raw += !place.has_value();
    inputs.push_back({request.inputs(i).name(), *std::move(tensor)});
  }
  return inputs;
}

absl::Status EncodeInferOutput(const std::string& name, const Tensor& tensor, inference::ModelInferResponse* response,
                               Attachments* attachments) {
  v1::Tensor encoded;
  int64_t unlimited = INT64_MAX;
  RETURN_IF_ERROR(EncodeTensor(tensor, v1::Tensor::RAW, &unlimited, &encoded, attachments));
  AddOutput(name, DatatypeOf(tensor.dtype()), response).mutable_shape()->Swap(encoded.mutable_shape());
  response->add_raw_output_contents()->swap(*encoded.mutable_raw());
  return absl::OkStatus();
}

absl::Status EncodeSharedOutput(const std::string& name, const Tensor& tensor, const SharedPlace& place,
                                const CallersRegions& regions, inference::ModelInferResponse* response) {
  const size_t bytes = tensor.bytes();
  if (bytes > place.byte_size) {
    return Invalid("output '", Excerpt(name), "' takes ", bytes, " bytes, but shared_memory_byte_size is ", place.byte_size);
  }
  RETURN_IF_ERROR(
      Annotate(regions.Write(place.region, place.offset, bytes, tensor.data()), absl::StrCat("output '", Excerpt(name), "'")));
  auto& output = AddOutput(name, DatatypeOf(tensor.dtype()), response);
  for (const int64_t dim : tensor.shape()) output.add_shape(dim);
  auto& parameters = *output.mutable_parameters();
  parameters["shared_memory_region"].set_string_param(place.region);
  parameters["shared_memory_offset"].set_int64_param(static_cast<int64_t>(place.offset));
  parameters["shared_memory_byte_size"].set_int64_param(static_cast<int64_t>(bytes));
  response->add_raw_output_contents();  // Entries stand in the order of outputs.
  return absl::OkStatus();
}

absl::Status EncodeClasses(const std::string& name, const Tensor& tensor, int64_t count, bool by_row, int64_t most_bytes,
                           inference::ModelInferResponse* response) {
  const bool has_rows = by_row && tensor.shape().ndim() > 0;
  const int64_t rows = has_rows ? tensor.shape()[0] : 1;
  const int64_t size = rows == 0 ? 0 : tensor.Size() / rows;
  const int64_t most = std::min(count, size);
  std::string raw;
  std::vector<int64_t> places;
  for (int64_t row = 0; row < rows; ++row) {
    RETURN_IF_ERROR(Largest(tensor, row * size, size, most, &places));
    for (const int64_t place : places) {
      const std::string text = absl::StrCat(ValueText(tensor, row * size + place), ":", place);
      for (size_t shift = 0; shift < 32; shift += 8) raw.push_back(static_cast<char>(text.size() >> shift & 0xff));
      raw.append(text);
      if (static_cast<int64_t>(raw.size()) <= most_bytes) continue;
      return OverLimit("--max_message_bytes", "the classes have more than the ", most_bytes,
                       " bytes of --max_message_bytes; ask for fewer");
    }
  }
  auto& output = AddOutput(name, "BYTES", response);
  if (has_rows) output.add_shape(rows);
  output.add_shape(most);
  response->add_raw_output_contents(std::move(raw));
  return absl::OkStatus();
}

}  // namespace gluond::server
