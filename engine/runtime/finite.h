// Whether what follows from constants may stand for them: a scale that is folded into a weight may be too large for the type.

#ifndef ENGINE_RUNTIME_FINITE_H_
#define ENGINE_RUNTIME_FINITE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"
#include "engine/runtime/lane.h"

namespace gluond {

// Whether all numbers of the tensors are finite. The tensors lie in the host's memory.
bool AreFinite(absl::Span<const Tensor> tensors);
// The same on the lanes' GPU, by the operator multi_all_finite, behind what is on their stream; waits for the answer. True where
// there is no such operator. `context` has scratch space. RESOURCE_EXHAUSTED: there is no memory for the answer.
absl::StatusOr<bool> AreFiniteOn(const Lanes& lanes, absl::Span<const Tensor> tensors, const OpContext& context,
                                 Allocator& allocator);

}  // namespace gluond

#endif  // ENGINE_RUNTIME_FINITE_H_
