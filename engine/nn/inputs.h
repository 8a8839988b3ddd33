// MatchInputs: the tensors that a client sent by name, in the order of a list of inputs. RowsView: rows of such a batch.

#ifndef ENGINE_NN_INPUTS_H_
#define ENGINE_NN_INPUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/nn/definition.h"
#include "engine/nn/named_tensor.h"

namespace gluond {

// Tensors of `from` in the order of `to`. The last `optional` inputs may be missing; their tensors are undefined.
// INVALID_ARGUMENT: an input is missing, unknown or given twice, or its shape does not fit.
absl::StatusOr<std::vector<Tensor>> MatchInputs(absl::Span<const ModelInput> to, NamedTensors from, size_t optional = 0);

// Some rows of a tensor, along axis 0, as a view. Requires: it has them.
Tensor RowsView(const Tensor& tensor, int64_t first, int64_t count);

}  // namespace gluond

#endif  // ENGINE_NN_INPUTS_H_
