#include "gluond/dlpack.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/data/dlpack_structs.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

constexpr int32_t kProcessor = 1;
constexpr int32_t kMostAxes = 32;
constexpr size_t kAlignment = 64;

struct DLPackType {
  uint8_t code, bits;
  DType dtype;
};
constexpr DLPackType kDLPackTypes[] = {{2, 32, DType::kFloat32},  {2, 64, DType::kFloat64}, {2, 16, DType::kFloat16},
                                       {4, 16, DType::kBfloat16}, {1, 8, DType::kUint8},    {0, 8, DType::kInt8},
                                       {0, 32, DType::kInt32},    {0, 64, DType::kInt64},   {6, 8, DType::kBool}};

// The memory of a DLManagedTensor of ours.
struct OwnedDLPack {
  ~OwnedDLPack() { free(managed.dl_tensor.data); }

  DLManagedTensor managed = {};
  std::vector<int64_t> shape, strides;
};

absl::Status Unwanted(const std::string& what) { return absl::InvalidArgumentError("FromDLPack: " + what); }

absl::StatusOr<DType> DTypeOfDLPack(const DLDataType& type) {
  if (type.lanes != 1) return Unwanted(absl::StrCat("elements have ", type.lanes, " lanes, expected 1; add an axis instead"));
  for (const DLPackType& each : kDLPackTypes) {
    if (each.code == type.code && each.bits == type.bits) return each.dtype;
  }
  return Unwanted(
      absl::StrCat("there is no dtype of code ", type.code, " and ", type.bits,
                   " bits; expected float of 16, 32 or 64 bits, bfloat of 16, int of 8, 32 or 64, uint of 8, or bool of 8"));
}

// Bytes from the first element to behind the last. INVALID_ARGUMENT: strides that are not positive, or elements in one place.
absl::StatusOr<uint64_t> Extent(const Shape& shape, const std::vector<int64_t>& strides, uint64_t element) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) axes.emplace_back(strides[i], shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  uint64_t taken = 1;  // Elements that the faster axes span.
  for (const auto& [stride, size] : axes) {
    if (stride < 1) return Unwanted(absl::StrCat("a stride is ", stride, ", expected 1 or more; make a contiguous copy"));
    if (static_cast<uint64_t>(stride) < taken) {
      return Unwanted(
          absl::StrCat("elements lie in one place: a stride is ", stride, " across ", taken, " elements; make a contiguous copy"));
    }
    uint64_t steps = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(stride), static_cast<uint64_t>(size - 1), &steps) ||
        __builtin_add_overflow(taken, steps, &taken)) {
      return Unwanted(absl::StrCat("no memory holds the shape ", ToString(shape), " with a stride of ", stride));
    }
  }
  if (__builtin_mul_overflow(taken, element, &taken)) return Unwanted(absl::StrCat("no memory holds the shape ", ToString(shape)));
  return taken;
}

void CopyStrided(const char* from, const Shape& shape, const std::vector<int64_t>& strides, size_t element, std::string* to) {
  std::vector<int64_t> at(shape.size(), 0);
  for (size_t done = 0; done < to->size(); done += element) {
    std::memcpy(&(*to)[done], from, element);
    for (size_t i = shape.size(); i-- > 0;) {
      const int64_t step = strides[i] * static_cast<int64_t>(element);
      if (++at[i] < shape[i]) {
        from += step;
        break;
      }
      from -= step * (shape[i] - 1);
      at[i] = 0;
    }
  }
}

absl::StatusOr<Tensor> CopyOf(const DLTensor& tensor) {
  if (tensor.device.device_type != kProcessor) {
    return Unwanted(absl::StrCat("the tensor is on a device of type ", tensor.device.device_type,
                                 ", expected the processor's memory (1, kDLCPU); copy it there first"));
  }
  GLUOND_ASSIGN_OR_RETURN(const DType dtype, DTypeOfDLPack(tensor.dtype));
  if (tensor.ndim < 0 || tensor.ndim > kMostAxes || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    return Unwanted(absl::StrCat("the tensor has ", tensor.ndim, " axes", tensor.shape == nullptr ? " and no shape" : "",
                                 ", expected 0 to ", kMostAxes, " and their sizes"));
  }
  const Shape shape(tensor.shape, tensor.shape + tensor.ndim);
  const auto element = static_cast<uint64_t>(ElementSize(dtype));
  uint64_t bytes = element;
  bool is_empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return Unwanted(absl::StrCat("the shape is ", ToString(shape), ", expected no negative size"));
    is_empty = is_empty || size == 0;
  }
  for (const int64_t size : shape) {
    if (!is_empty && __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      return Unwanted(absl::StrCat("no memory holds the shape ", ToString(shape)));
    }
  }
  if (is_empty) return Tensor::FromBytes(dtype, shape, "");
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  const bool is_compact = tensor.strides == nullptr || std::equal(strides.begin(), strides.end(), tensor.strides);
  if (!is_compact) strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  GLUOND_ASSIGN_OR_RETURN(const uint64_t extent, Extent(shape, strides, element));
  const auto memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > memory) {
    return Unwanted(absl::StrCat("the shape ", ToString(shape), " has ", bytes, " bytes, but this machine's memory has ", memory));
  }
  uint64_t end = reinterpret_cast<uint64_t>(tensor.data);
  if (tensor.data == nullptr || __builtin_add_overflow(end, tensor.byte_offset, &end) ||
      __builtin_add_overflow(end, extent, &end)) {
    return Unwanted(absl::StrCat(tensor.data == nullptr ? "there is no data" : "the data ends behind all memory",
                                 ", for the shape ", ToString(shape), " at the offset ", tensor.byte_offset));
  }
  const char* const data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  std::string values;
  if (is_compact) {
    values.assign(data, bytes);
  } else {
    values.resize(bytes);
    CopyStrided(data, shape, strides, element, &values);
  }
  if (dtype == DType::kBool) {
    for (char& each : values) each = each != 0;
  }
  return Tensor::FromBytes(dtype, shape, std::move(values));
}

}  // namespace

absl::StatusOr<DLManagedTensor*> ToDLPack(const Tensor& tensor) {
  auto owned = std::make_unique<OwnedDLPack>();
  DLTensor& out = owned->managed.dl_tensor;
  const size_t bytes = tensor.bytes().size();
  out.data = aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (out.data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("ToDLPack: there is no memory for ", bytes, " bytes; make some free"));
  }
  if (bytes > 0) std::memcpy(out.data, tensor.bytes().data(), bytes);
  owned->shape.assign(tensor.shape().begin(), tensor.shape().end());
  owned->strides.assign(owned->shape.size(), 1);
  for (size_t i = owned->shape.size(); i-- > 1;) {
    owned->strides[i - 1] = owned->strides[i] * std::max<int64_t>(owned->shape[i], 1);
  }
  out.device = {kProcessor, 0};
  out.ndim = static_cast<int32_t>(owned->shape.size());
  for (const DLPackType& each : kDLPackTypes) {
    if (each.dtype == tensor.dtype()) out.dtype = {each.code, each.bits, 1};
  }
  out.shape = owned->shape.data();
  out.strides = owned->strides.data();
  owned->managed.manager_ctx = owned.get();
  owned->managed.deleter = [](DLManagedTensor* self) { delete static_cast<OwnedDLPack*>(self->manager_ctx); };
  return &owned.release()->managed;
}

absl::StatusOr<DLManagedTensor*> ToDLPack(const NDArray& array, Place place) {
  GLUOND_ASSIGN_OR_RETURN(const Tensor tensor, array.ToTensor(place));
  return ToDLPack(tensor);
}

absl::StatusOr<Tensor> TensorFromDLPack(DLManagedTensor* tensor) {
  if (tensor == nullptr) return Unwanted("there is no tensor; has another library taken it?");
  absl::StatusOr<Tensor> copy = CopyOf(tensor->dl_tensor);
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
  return copy;
}

NDArray FromDLPack(DLManagedTensor* tensor, const std::string& device, Place place) {
  const absl::StatusOr<Tensor> values = TensorFromDLPack(tensor);
  return values.ok() ? NDArray(*values, device, place) : NDArray::Failed(values.status(), place);
}

}  // namespace gluond::client
