// MXNet's format of arrays.

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/gluon/file_formats.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

// u64 0x112, u64 0; u64 number of arrays, the arrays; u64 number of names (0 or that of the arrays), the names.
// Array: u32 version; i32 storage (0: dense); i32 dimensions, i64 each; i32, i32 device; i32 dtype; the bytes. Little-endian.
// No length in a file is believed before it is compared with the file's own.
constexpr uint64_t kList = 0x112;
constexpr uint32_t kVersion1 = 0xF993FAC8, kVersion2 = 0xF993FAC9, kVersion3 = 0xF993FACA;
constexpr int kMostDimensions = 32;

template <class T>
void Write(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class From, class To>
std::string Widen(absl::string_view bytes) {
  std::string wide;
  wide.reserve(bytes.size() / sizeof(From) * sizeof(To));
  for (size_t at = 0; at < bytes.size(); at += sizeof(From)) {
    From value;
    std::memcpy(&value, bytes.data() + at, sizeof(From));
    Write(static_cast<To>(value), &wide);
  }
  return wide;
}

// Elements of a file: their size, and the dtype that they are read as. Dtypes that the server lacks are read as one that holds all
// their values, or, of 64 bits without a sign, nearly all.
struct Stored {
  uint64_t size;
  DType dtype;
  std::string (*widen)(absl::string_view) = nullptr;
};

Stored StoredAs(int32_t number) {
  switch (number) {
    case 8: return {2, DType::kInt32, Widen<int16_t, int32_t>};
    case 9: return {2, DType::kInt32, Widen<uint16_t, int32_t>};
    case 10: return {4, DType::kInt64, Widen<uint32_t, int64_t>};
    case 11: return {8, DType::kInt64, Widen<uint64_t, int64_t>};
    default: {
      const auto dtype = static_cast<DType>(number);
      return {static_cast<uint64_t>(ElementSize(dtype)), dtype};
    }
  }
}

class ParamsReader {
 public:
  ParamsReader(absl::string_view bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  absl::StatusOr<NamedTensors> Read() {
    GLUOND_ASSIGN_OR_RETURN(const uint64_t magic, Number<uint64_t>());
    if (magic != kList) return Broken("it does not begin with the number 0x112");
    GLUOND_RETURN_IF_ERROR(Number<uint64_t>().status());
    GLUOND_ASSIGN_OR_RETURN(const uint64_t count, Number<uint64_t>());
    if (count > left() / 4) return Broken(absl::StrCat("it announces ", count, " arrays, but has ", left(), " bytes left"));
    NamedTensors tensors;
    for (uint64_t i = 0; i < count; ++i) {
      GLUOND_ASSIGN_OR_RETURN(Tensor tensor, Array());
      tensors.emplace_back("", std::move(tensor));
    }
    GLUOND_ASSIGN_OR_RETURN(const uint64_t names, Number<uint64_t>());
    if (names != 0 && names != count) return Broken(absl::StrCat("it has ", count, " arrays, but ", names, " names"));
    for (uint64_t i = 0; i < names; ++i) {
      GLUOND_ASSIGN_OR_RETURN(const uint64_t size, Number<uint64_t>());
      GLUOND_ASSIGN_OR_RETURN(const absl::string_view name, Bytes(size));
      if (!IsUtf8(name)) return Broken("a name is not UTF-8");
      tensors[i].first = std::string(name);
    }
    return tensors;
  }

 private:
  size_t left() const { return bytes_.size() - at_; }

  absl::Status Broken(const std::string& why) const {
    return absl::DataLossError(absl::StrCat(what_, " is no file of NDArrays, or a damaged one: ", why));
  }

  absl::StatusOr<absl::string_view> Bytes(uint64_t count) {
    if (count > left()) return Broken(absl::StrCat(count, " bytes are announced at byte ", at_, ", but ", left(), " follow"));
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  template <class T>
  absl::StatusOr<T> Number() {
    GLUOND_ASSIGN_OR_RETURN(const absl::string_view bytes, Bytes(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  // Dimensions of 32 bits where the file is as old as that.
  template <class Dimension>
  absl::StatusOr<Shape> Dimensions(uint32_t count) {
    if (count > kMostDimensions) return Broken(absl::StrCat("an array has ", count, " dimensions"));
    Shape shape;
    for (uint32_t i = 0; i < count; ++i) {
      GLUOND_ASSIGN_OR_RETURN(const Dimension size, Number<Dimension>());
      shape.push_back(static_cast<int64_t>(size));
    }
    return shape;
  }

  absl::StatusOr<Tensor> Array() {
    GLUOND_ASSIGN_OR_RETURN(const uint32_t version, Number<uint32_t>());
    Shape shape;
    if (version == kVersion2 || version == kVersion3) {
      GLUOND_ASSIGN_OR_RETURN(const int32_t storage, Number<int32_t>());
      if (storage != 0) return Broken(absl::StrCat("an array is sparse (storage ", storage, "), which this client does not read"));
      GLUOND_ASSIGN_OR_RETURN(const uint32_t count, Number<uint32_t>());
      GLUOND_ASSIGN_OR_RETURN(shape, Dimensions<int64_t>(count));
    } else if (version == kVersion1) {
      GLUOND_ASSIGN_OR_RETURN(const uint32_t count, Number<uint32_t>());
      GLUOND_ASSIGN_OR_RETURN(shape, Dimensions<int64_t>(count));
    } else {  // Before versions: their number is the rank.
      GLUOND_ASSIGN_OR_RETURN(shape, Dimensions<uint32_t>(version));
    }
    if (shape.empty() && version != kVersion3) return Broken("an array has no value");
    GLUOND_RETURN_IF_ERROR(Bytes(8).status());  // The device on which it was.
    GLUOND_ASSIGN_OR_RETURN(const int32_t number, Number<int32_t>());
    const Stored stored = StoredAs(number);
    uint64_t size = stored.size;
    if (size == 0) return Broken(absl::StrCat("an array's dtype has the number ", number, ", which this client does not have"));
    for (const int64_t dimension : shape) {
      if (dimension < 0 || __builtin_mul_overflow(size, static_cast<uint64_t>(dimension), &size)) {
        return Broken(absl::StrCat("no array has the shape ", ToString(shape)));
      }
    }
    GLUOND_ASSIGN_OR_RETURN(const absl::string_view bytes, Bytes(size));
    return Tensor::FromBytes(stored.dtype, std::move(shape), stored.widen == nullptr ? std::string(bytes) : stored.widen(bytes));
  }

  const absl::string_view bytes_;
  const std::string& what_;
  size_t at_ = 0;
};

// Each half of a float is a bfloat16; files have had floats for it since before MXNet knew the type.
std::string FloatsOf(absl::string_view bfloats) {
  std::string floats;
  floats.reserve(bfloats.size() * 2);
  for (size_t at = 0; at < bfloats.size(); at += 2) {
    floats.append(2, '\0');
    floats.append(bfloats.data() + at, 2);
  }
  return floats;
}

}  // namespace

std::string WriteParams(const NamedTensors& tensors, bool has_names) {
  std::string bytes;
  size_t size = 0;
  for (const auto& [name, tensor] : tensors) size += tensor.bytes().size() + name.size() + 256;
  bytes.reserve(size);
  Write<uint64_t>(kList, &bytes);
  Write<uint64_t>(0, &bytes);
  Write<uint64_t>(tensors.size(), &bytes);
  for (const auto& [name, tensor] : tensors) {
    const bool widens = tensor.dtype() == DType::kBfloat16;
    // No dimensions mean no array in version 2; version 3 knows scalars.
    Write<uint32_t>(tensor.shape().empty() ? kVersion3 : kVersion2, &bytes);
    Write<int32_t>(0, &bytes);
    Write<uint32_t>(static_cast<uint32_t>(tensor.shape().size()), &bytes);
    for (const int64_t dimension : tensor.shape()) Write<int64_t>(dimension, &bytes);
    Write<int32_t>(1, &bytes);
    Write<int32_t>(0, &bytes);
    Write<int32_t>(static_cast<int32_t>(widens ? DType::kFloat32 : tensor.dtype()), &bytes);
    if (widens) {
      bytes += FloatsOf(tensor.bytes());
    } else {
      bytes.append(tensor.bytes().data(), tensor.bytes().size());
    }
  }
  Write<uint64_t>(has_names ? tensors.size() : 0, &bytes);
  for (const auto& [name, tensor] : tensors) {
    if (!has_names) break;
    Write<uint64_t>(name.size(), &bytes);
    bytes += name;
  }
  return bytes;
}

absl::StatusOr<NamedTensors> ReadParams(absl::string_view bytes, const std::string& what) {
  return ParamsReader(bytes, what).Read();
}

}  // namespace gluond::client
