#include "gluond/tensor.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gluond/status_macros.h"

static_assert(std::endian::native == std::endian::little, "Tensor bytes are little-endian.");

namespace gluond::client {
namespace {

absl::StatusOr<int64_t> ByteSize(DType dtype, const Shape& shape) {
  int64_t size = ElementSize(dtype);
  if (size == 0) return absl::InvalidArgumentError(absl::StrCat("Tensor: unknown dtype ", static_cast<int>(dtype)));
  // A shape with a 0 is empty, however large its other dimensions are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(size, d, &size)) {
      return absl::InvalidArgumentError(absl::StrCat("Tensor: no tensor has the shape ", ToString(shape)));
    }
  }
  return size;
}

}  // namespace

std::string ToString(const Shape& shape) { return absl::StrCat("(", absl::StrJoin(shape, ", "), ")"); }

absl::Status CheckSize(DType dtype, const Shape& shape, size_t bytes) {
  GLUOND_ASSIGN_OR_RETURN(const int64_t size, ByteSize(dtype, shape));
  if (size == static_cast<int64_t>(bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Tensor: ", ToString(dtype), " of shape ", ToString(shape), " has ", size, " bytes, got ", bytes));
}

absl::StatusOr<Tensor> Tensor::FromBytes(DType dtype, Shape shape, std::string bytes) {
  GLUOND_RETURN_IF_ERROR(CheckSize(dtype, shape, bytes.size()));
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.bytes_ = std::make_shared<const std::string>(std::move(bytes));
  return tensor;
}

std::shared_ptr<const std::string> Tensor::NoBytes() {
  static const auto& none = *new auto(std::make_shared<const std::string>());
  return none;
}

absl::Status Tensor::WrongType(DType wanted) const {
  return absl::InvalidArgumentError(absl::StrCat("Tensor: holds ", ToString(dtype_), ", read as ", ToString(wanted)));
}

}  // namespace gluond::client
