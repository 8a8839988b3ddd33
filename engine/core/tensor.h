// Buffer is memory on a device; Tensor is a typed, shaped piece of a Buffer that it keeps alive; TBlob is the same
// without ownership, for kernels.
//
// A Tensor is a handle: copies share memory. Elements lie in row-major order without gaps.

#ifndef ENGINE_CORE_TENSOR_H_
#define ENGINE_CORE_TENSOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"
#include "engine/core/status_macros.h"

namespace gluond {

class Buffer {
 public:
  // Takes over `data`; `release` runs when the last owner goes.
  Buffer(void* data, size_t bytes, Device device, std::function<void()> release)
      : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}
  ~Buffer() {
    if (release_) release_();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void* const data_;
  const size_t bytes_;
  const Device device_;
  const std::function<void()> release_;
};

// An Allocator makes buffers. Thread-safe. engine/runtime implements it with budgets.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const = 0;
  // 64-byte aligned, contents unspecified. RESOURCE_EXHAUSTED names the budget that is used up.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) = 0;
  // Pays, until the result goes, for so many bytes of the host's memory that the caller has from elsewhere. The result has
  // no data. RESOURCE_EXHAUSTED as Allocate. An allocator without a budget charges nobody.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Charge(size_t) { return std::make_shared<Buffer>(nullptr, 0, device(), nullptr); }
  // Frees what the memory's owner keeps only to be faster. Allocate does so before it refuses; who cannot do without a charge
  // does it then, and asks again. False: there was nothing.
  virtual bool LetGo() { return false; }
};

// A TBlob is memory that a kernel reads or writes. It does not own that memory.
struct TBlob {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::kUnknown;
  Device device;

  int64_t Size() const { return shape.Size(); }
  size_t bytes() const { return static_cast<size_t>(Size() * SizeOf(dtype)); }
  // Requires: T is the C++ type of dtype.
  template <class T>
  T* dptr() const {
    return static_cast<T*>(data);
  }
};

class Tensor {
 public:
  Tensor() = default;  // No value: defined() is false.
  // Requires: offset + bytes of (shape, dtype) fit in the buffer.
  Tensor(std::shared_ptr<Buffer> buffer, size_t offset, Shape shape, DType dtype)
      : buffer_(std::move(buffer)), offset_(offset), shape_(shape), dtype_(dtype) {}

  // Uninitialized. INVALID_ARGUMENT: unknown or huge shape. RESOURCE_EXHAUSTED: no memory.
  static absl::StatusOr<Tensor> Empty(Allocator& allocator, const Shape& shape, DType dtype) {
    ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(shape, SizeOf(dtype)));
    ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, allocator.Allocate(static_cast<size_t>(bytes)));
    return Tensor(std::move(buffer), 0, shape, dtype);
  }

  bool defined() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return buffer_->device(); }
  int64_t Size() const { return shape_.Size(); }
  size_t bytes() const { return static_cast<size_t>(Size() * SizeOf(dtype_)); }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  void* data() const { return static_cast<char*>(buffer_->data()) + offset_; }
  // Requires: the tensor is on a CPU and T is the C++ type of dtype().
  template <class T>
  T* data() const {
    return static_cast<T*>(data());
  }

  TBlob blob() const { return {data(), shape_, dtype_, device()}; }
  // The same memory under another shape. Requires: equal Size().
  Tensor Reshaped(const Shape& shape) const { return Tensor(buffer_, offset_, shape, dtype_); }

 private:
  std::shared_ptr<Buffer> buffer_;
  size_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::kUnknown;
};

}  // namespace gluond

#endif  // ENGINE_CORE_TENSOR_H_
