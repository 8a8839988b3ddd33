// Tensor is what a client sends and receives: dtype, shape and little-endian bytes, in row-major
// order. A value whose copies share their bytes, which never change.
//
//   Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
//   absl::StatusOr<std::vector<float>> values = x.Values<float>();

#ifndef GLUOND_TENSOR_H_
#define GLUOND_TENSOR_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gluond/dtype.h"
#include "gluond/export.h"

namespace gluond::client {

using Shape = std::vector<int64_t>;

// "(2, 3)".
GLUOND_EXPORT std::string ToString(const Shape& shape);

class GLUOND_EXPORT Tensor {
 public:
  // An empty tensor of shape (0).
  Tensor() = default;

  // INVALID_ARGUMENT: a negative dimension, a shape whose size overflows, or another number of
  // bytes.
  static absl::StatusOr<Tensor> FromBytes(DType dtype, Shape shape, std::string bytes);

  // Requires as many values as the shape has elements.
  template <class T>
  static Tensor Of(Shape shape, const std::vector<T>& values) {
    if constexpr (std::is_same_v<T, bool>) {
      return FromBytes(DType::kBool, std::move(shape), std::string(values.begin(), values.end())).value();
    } else {
      return FromSpan(std::move(shape), absl::MakeConstSpan(values));
    }
  }
  template <class T>
  static Tensor FromSpan(Shape shape, absl::Span<const T> values) {
    std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return FromBytes(DTypeOf<T>(), std::move(shape), std::move(bytes)).value();
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  absl::string_view bytes() const { return *bytes_; }
  const std::shared_ptr<const std::string>& shared_bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_->size()) / ElementSize(dtype_); }

  // The elements. INVALID_ARGUMENT: T is not the tensor's dtype.
  template <class T>
  absl::StatusOr<std::vector<T>> Values() const {
    if (DTypeOf<T>() != dtype_) return WrongType(DTypeOf<T>());
    if constexpr (std::is_same_v<T, bool>) {
      return std::vector<bool>(bytes_->begin(), bytes_->end());
    } else {
      std::vector<T> values(static_cast<size_t>(size()));
      if (!values.empty()) std::memcpy(static_cast<void*>(values.data()), bytes_->data(), bytes_->size());
      return values;
    }
  }

  friend bool operator==(const Tensor& a, const Tensor& b) {
    return a.dtype_ == b.dtype_ && a.shape_ == b.shape_ && a.bytes() == b.bytes();
  }
  friend bool operator!=(const Tensor& a, const Tensor& b) { return !(a == b); }

 private:
  static std::shared_ptr<const std::string> NoBytes();
  absl::Status WrongType(DType wanted) const;

  DType dtype_ = DType::kFloat32;
  Shape shape_ = {0};
  std::shared_ptr<const std::string> bytes_ = NoBytes();
};

// For the library itself. INVALID_ARGUMENT: no tensor of this shape has so many bytes.
absl::Status CheckSize(DType dtype, const Shape& shape, size_t bytes);

// Tensors by name: inputs, outputs, parameters, gradients.
using Tensors = std::map<std::string, Tensor>;

}  // namespace gluond::client

#endif  // GLUOND_TENSOR_H_
