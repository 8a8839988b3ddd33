#include "engine/runtime/transfer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/convert.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/only_holder.h"

namespace gluond {

absl::Status CopyToDevice(const Tensor& from, const Lanes& device, const Tensor& to) {
  if (from.device() == to.device()) return device.driver().Copy(to.data(), from.data(), to.bytes(), device.stream());
  return device.driver().CopyFromHost(to.data(), from.data(), to.bytes(), device.stream());
}

absl::Status CopyToHost(const Tensor& tensor, const Lanes& device, const Tensor& to) {
  return device.driver().CopyToHost(to.data(), tensor.data(), to.bytes(), device.stream());
}

absl::StatusOr<Tensor> CopyToDevice(const Tensor& host, const Lanes& device, Allocator& allocator) {
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(allocator, host.shape(), host.dtype()));
  RETURN_IF_ERROR(CopyToDevice(host, device, copy));
  return copy;
}

absl::StatusOr<Tensor> CopyToHost(const Tensor& tensor, const Lanes& device, Allocator& host) {
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(host, tensor.shape(), tensor.dtype()));
  RETURN_IF_ERROR(CopyToHost(tensor, device, copy));
  return copy;
}

absl::Status Own(Tensor* tensor, const Lanes& device, Allocator& allocator) {
  if (IsOnlyHolder(tensor->buffer())) return absl::OkStatus();
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(allocator, tensor->shape(), tensor->dtype()));
  RETURN_IF_ERROR(device.driver().Copy(copy.data(), tensor->data(), copy.bytes(), device.stream()));
  *tensor = std::move(copy);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> CopyBetween(const Tensor& tensor, const Lanes& from, const Lanes& to, Allocator& allocator) {
  if (tensor.device().type == DeviceType::kCpu) return CopyToDevice(tensor, to, allocator);
  if (to.device().type == DeviceType::kCpu) return CopyToHost(tensor, from, allocator);
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(allocator, tensor.shape(), tensor.dtype()));
  // Piece by piece, through memory of the host. Each GPU does its half in its own stream, behind earlier uses of its
  // memory.
  constexpr size_t kPiece = size_t{16} << 20;
  std::vector<char> staged(std::min(tensor.bytes(), kPiece));
  for (size_t at = 0; at < tensor.bytes(); at += kPiece) {
    const size_t bytes = std::min(tensor.bytes() - at, kPiece);
    RETURN_IF_ERROR(from.driver().CopyToHost(staged.data(), tensor.data<char>() + at, bytes, from.stream()));
    RETURN_IF_ERROR(to.driver().CopyFromHost(copy.data<char>() + at, staged.data(), bytes, to.stream()));
  }
  return copy;
}

absl::StatusOr<Tensor> AsType(const Tensor& tensor, DType type, Allocator& host) {
  if (tensor.dtype() == type) return tensor;
  ASSIGN_OR_RETURN(Tensor converted, Tensor::Empty(host, tensor.shape(), type));
  ConvertValues(tensor.data(), tensor.dtype(), converted.data(), type, tensor.Size());
  return converted;
}

}  // namespace gluond
