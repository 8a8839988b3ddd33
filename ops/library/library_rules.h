// The functions of a library's operator as the registry has them.

#ifndef OPS_LIBRARY_LIBRARY_RULES_H_
#define OPS_LIBRARY_LIBRARY_RULES_H_

#include "engine/core/op_attr_types.h"
#include "ops/library/gluond_op.h"
#include "ops/library/library_facts.h"

namespace gluond::ops {

// The rules check what the library tells: ranks, sizes, types, and that nothing known has changed. INTERNAL: the library is wrong.
FInferShape LibraryShapes(const LibraryFacts& facts);
FInferType LibraryTypes(const LibraryFacts& facts);
FGradient LibraryGradient(const LibraryFacts& facts);
FCompute LibraryKernel(decltype(gluond_op_facts::compute_cpu) compute);

// Sets the functions of the table that kernels call.
void AddRunFunctions(gluond_op_api* api);

}  // namespace gluond::ops

#endif  // OPS_LIBRARY_LIBRARY_RULES_H_
