// Values from and for other libraries of this process, by DLPack's structs of version 0: <dlpack/dlpack.h> or the like defines
// DLManagedTensor.
//
//   NDArray x = FromDLPack(at::toDLPack(tensor));
//   at::Tensor y = at::fromDLPack(ToDLPack(x).value());
//
// Arrays live on a server, so values are copied, both ways.

#ifndef GLUOND_DLPACK_H_
#define GLUOND_DLPACK_H_

#include <string>

#include "absl/status/statusor.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"
#include "gluond/tensor.h"

struct DLManagedTensor;

namespace gluond::client {

// Waits for the values. Memory of the processor's, row-major, that begins at a multiple of 64 bytes. Its taker may write to it, and calls
// its deleter once. RESOURCE_EXHAUSTED: there is no memory.
GLUOND_EXPORT absl::StatusOr<DLManagedTensor*> ToDLPack(const NDArray& array, Place place = Place::Here());
GLUOND_EXPORT absl::StatusOr<DLManagedTensor*> ToDLPack(const Tensor& tensor);

// Copies a tensor in the processor's memory, and calls its deleter, whatever the result. Strides are positive, and no two elements lie
// in one place. INVALID_ARGUMENT, or an array that is poisoned with it: another device, a dtype that the server lacks, vectors (lanes),
// other strides. The same for a shape that no memory of this machine holds.
GLUOND_EXPORT NDArray FromDLPack(DLManagedTensor* tensor, const std::string& device = "", Place place = Place::Here());
GLUOND_EXPORT absl::StatusOr<Tensor> TensorFromDLPack(DLManagedTensor* tensor);

}  // namespace gluond::client

#endif  // GLUOND_DLPACK_H_
