#include "engine/runtime/transfer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/graph.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/only_holder.h"

namespace gluond {
namespace {

// A call of the operator that copies as a request says. Null: it is not linked.
const Node* Adder() {
  static const NodePtr& node =
      *new NodePtr(Op::Find("_copy") == nullptr ? nullptr : MakeNode("_copy", "copy", {MakeVariable("data")}).node);
  return node.get();
}

// Piece by piece, through memory of the host. Each GPU does its half in its own stream, behind earlier uses of its memory.
absl::Status CopyThroughHost(const TBlob& from, const TBlob& to, const Lanes& lanes, const Lanes& others) {
  constexpr size_t kPiece = size_t{16} << 20;
  if (lanes.host_memory() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("a copy from ", from.device.ToString(), " to ", to.device.ToString(),
                                                      " goes through the host, where these lanes have no memory"));
  }
  absl::StatusOr<std::shared_ptr<Buffer>> staged = lanes.host_memory()->Allocate(std::min(from.bytes(), kPiece));
  if (!staged.ok()) return Annotate(staged.status(), "a copy from one device to another");
  for (size_t at = 0; at < from.bytes(); at += kPiece) {
    const size_t bytes = std::min(from.bytes() - at, kPiece);
    RETURN_IF_ERROR(lanes.driver().CopyToHost((*staged)->data(), from.dptr<char>() + at, bytes, lanes.stream()));
    RETURN_IF_ERROR(others.driver().CopyFromHost(to.dptr<char>() + at, (*staged)->data(), bytes, others.stream()));
  }
  return absl::OkStatus();
}

}  // namespace

bool CanAdd(Device device) { return Adder() != nullptr && Adder()->facts().kernel(device.type) != nullptr; }

absl::Status Copy(const TBlob& from, const TBlob& to, const Lanes& lanes, const CopyOptions& options) {
  constexpr OpReqType kAdd = kAddTo;
  if (options.add_in != nullptr) return RunKernel(Adder()->attrs, *options.add_in, {&from, 1}, {&kAdd, 1}, {&to, 1});
  DeviceDriver& driver = lanes.driver();
  if (from.device == to.device) {
    return from.data == to.data ? absl::OkStatus() : driver.Copy(to.data, from.data, to.bytes(), lanes.stream());
  }
  if (to.device.type == DeviceType::kCpu) return driver.CopyToHost(to.data, from.data, to.bytes(), lanes.stream());
  if (from.device.type == DeviceType::kCpu) return driver.CopyFromHost(to.data, from.data, to.bytes(), lanes.stream());
  if (options.others == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("a copy from ", from.device.ToString(), " to ", to.device.ToString(),
                                                      " is not between two GPUs' lanes; copy the array to the host first"));
  }
  return CopyThroughHost(from, to, lanes, *options.others);
}

absl::StatusOr<Tensor> CopyTo(const Tensor& from, const Lanes& lanes, Allocator& allocator, const CopyOptions& options) {
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(allocator, from.shape(), from.dtype()));
  RETURN_IF_ERROR(Copy(from.blob(), copy.blob(), lanes, options));
  return copy;
}

absl::Status CopyInto(Tensor* kept, const Tensor& from, const Lanes& lanes, Allocator& allocator) {
  ASSIGN_OR_RETURN(const Tensor to, Reuse(kept, from.shape(), from.dtype(), allocator));
  return Copy(from.blob(), to.blob(), lanes);
}

absl::Status Own(Tensor* tensor, const Lanes& device, Allocator& allocator) {
  if (IsOnlyHolder(tensor->buffer())) return absl::OkStatus();
  ASSIGN_OR_RETURN(*tensor, CopyTo(*tensor, device, allocator));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Reuse(Tensor* kept, const Shape& shape, DType dtype, Allocator& allocator) {
  if (!kept->defined() || kept->shape() != shape || kept->dtype() != dtype) {
    ASSIGN_OR_RETURN(*kept, Tensor::Empty(allocator, shape, dtype));
  }
  return *kept;
}

absl::StatusOr<Tensor> AsType(const Tensor& tensor, DType type, Allocator& host) {
  if (tensor.dtype() == type) return tensor;
  ASSIGN_OR_RETURN(Tensor converted, Tensor::Empty(host, tensor.shape(), type));
  ConvertValues(tensor.data(), tensor.dtype(), converted.data(), type, tensor.Size());
  return converted;
}

}  // namespace gluond
