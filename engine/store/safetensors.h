// Safetensors: tensors by name in one file, in the format of the Python package `safetensors`. The first eight
// bytes, little-endian, are the length of a JSON header. The header has a member for each tensor, {"dtype": "F32",
// "shape": [2, 3], "data_offsets": [begin, end]}, and "__metadata__", strings by name. The tensors' bytes follow,
// row-major and little-endian, without gaps.

#ifndef ENGINE_STORE_SAFETENSORS_H_
#define ENGINE_STORE_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/node_attrs.h"
#include "engine/nn/named_tensor.h"

namespace gluond {

// Hands the file to `append` piece by piece. Requires: tensors on the host. INVALID_ARGUMENT: a name twice, or the name
// "__metadata__". Returns what append returns.
absl::Status WriteSafetensors(const NamedTensors& tensors, const AttrDict& metadata,
                              const std::function<absl::Status(absl::string_view)>& append);

// Whether the file can hold the tensor: a bool has no values but 0 and 1. Requires: it is on the host.
bool FitsSafetensors(const Tensor& tensor);

struct Safetensors {
  NamedTensors tensors;  // In the header's order.
  AttrDict metadata;
};

// Reads a whole file of `size` bytes by `read`, which gives the next bytes. Every size is checked against `size` before
// memory is allocated; bytes are read straight into the tensors. INVALID_ARGUMENT tells why this is no such file.
absl::StatusOr<Safetensors> ReadSafetensors(uint64_t size, const std::function<absl::Status(void* to, size_t)>& read,
                                            Allocator& host_allocator);
absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view bytes, Allocator& host_allocator);

}  // namespace gluond

#endif  // ENGINE_STORE_SAFETENSORS_H_
