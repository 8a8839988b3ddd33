// Tensor is what a client sends and receives: dtype, shape and little-endian bytes, in row-major
// order. A value whose copies share their bytes, which never change.
//
//   Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
//   absl::StatusOr<std::vector<float>> values = x.Values<float>();

#ifndef GLUOND_CLIENT_CPP_TENSOR_H_
#define GLUOND_CLIENT_CPP_TENSOR_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gluond/v1/tensor.pb.h"

namespace gluond::client {

using DType = v1::Tensor::DType;
using Shape = std::vector<int64_t>;

// Bytes of one element; 0 for a dtype that does not exist.
int64_t ElementSize(DType dtype);

// "(2, 3)".
std::string ToString(const Shape& shape);

// The DType of a C++ type. FLOAT16 and BFLOAT16 have none: their bytes travel in a Tensor unread.
template <class T>
constexpr DType DTypeOf() = delete;
template <>
constexpr DType DTypeOf<float>() {
  return v1::Tensor::FLOAT32;
}
template <>
constexpr DType DTypeOf<double>() {
  return v1::Tensor::FLOAT64;
}
template <>
constexpr DType DTypeOf<uint8_t>() {
  return v1::Tensor::UINT8;
}
template <>
constexpr DType DTypeOf<int8_t>() {
  return v1::Tensor::INT8;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return v1::Tensor::INT32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return v1::Tensor::INT64;
}

class Tensor {
 public:
  // An empty tensor of shape (0).
  Tensor() = default;

  // INVALID_ARGUMENT: a negative dimension, a shape whose size overflows, or another number of
  // bytes.
  static absl::StatusOr<Tensor> FromBytes(DType dtype, Shape shape, std::string bytes);

  // Requires as many values as the shape has elements.
  template <class T>
  static Tensor Of(Shape shape, const std::vector<T>& values) {
    std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return FromBytes(DTypeOf<T>(), std::move(shape), std::move(bytes)).value();
  }

  // The tensor of a reply, raw or typed. INVALID_ARGUMENT: it has no values (statistics), or not as
  // many as the shape.
  static absl::StatusOr<Tensor> FromProto(v1::Tensor proto);

  // As `raw`.
  v1::Tensor ToProto() const;
  v1::Tensor ToProtoWithoutBytes() const;

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  absl::string_view bytes() const { return *bytes_; }
  const std::shared_ptr<const std::string>& shared_bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_->size()) / ElementSize(dtype_); }

  // The elements. INVALID_ARGUMENT: T is not the tensor's dtype.
  template <class T>
  absl::StatusOr<std::vector<T>> Values() const {
    if (DTypeOf<T>() != dtype_) return WrongType(DTypeOf<T>());
    std::vector<T> values(static_cast<size_t>(size()));
    if (!values.empty()) std::memcpy(values.data(), bytes_->data(), bytes_->size());
    return values;
  }

  friend bool operator==(const Tensor& a, const Tensor& b) {
    return a.dtype_ == b.dtype_ && a.shape_ == b.shape_ && a.bytes() == b.bytes();
  }

 private:
  static std::shared_ptr<const std::string> NoBytes();
  absl::Status WrongType(DType wanted) const;

  DType dtype_ = v1::Tensor::FLOAT32;
  Shape shape_ = {0};
  std::shared_ptr<const std::string> bytes_ = NoBytes();
};

// Tensors by name: inputs, outputs, parameters, gradients.
using Tensors = std::map<std::string, Tensor>;

// Moves the tensors out of a message's map field.
absl::StatusOr<Tensors> FromProto(google::protobuf::Map<std::string, v1::Tensor>* map);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_TENSOR_H_
