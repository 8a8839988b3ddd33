#include "engine/core/tensor.h"

#include "engine/core/status_macros.h"

namespace gluond {

absl::StatusOr<Tensor> Tensor::Empty(Allocator& allocator, const Shape& shape, DType dtype) {
  ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(shape, SizeOf(dtype)));
  ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, allocator.Allocate(static_cast<size_t>(bytes)));
  return Tensor(std::move(buffer), 0, shape, dtype);
}

}  // namespace gluond
