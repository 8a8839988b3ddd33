// Computes a RowChain of a program (engine/passes/row_chains.h), a few rows at a time. Private to engine/runtime.

#ifndef ENGINE_RUNTIME_ROW_CHAIN_H_
#define ENGINE_RUNTIME_ROW_CHAIN_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/op_context.h"
#include "engine/passes/row_chains.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/program.h"

namespace gluond {

// Whether the run may compute the chain by rows. No output may lie where another chunk still reads; tensors that each
// chunk reads whole must be small, or constant.
bool MayComputeByRows(const Program& program, const RowChain& chain, bool has_constants);

// How many chunks the context's threads compute at once, and the bytes of space that each of them takes.
int ChunksAtOnce(const RowChain& chain, const OpContext& context);
inline size_t ChunkSpace(const RowChain& chain) { return chain.local_bytes + chain.scratch_bytes; }

// Program::Prepare, for the chain's steps in chunks that one thread computes. Other threads find the library's code made.
absl::Status PrepareByRows(Program* program, const RowChain& chain, const OpContext& context);

// Runs the chain's steps, `at_once` chunks at a time, in as many times ChunkSpace and context.scratch. `cancellation`, which
// may be null, is asked before each chunk. A failure names its step in *failed.
absl::Status ComputeByRows(Program* program, const OpContext& context, int at_once, void* space, RowChain* chain,
                           const Cancellation* cancellation, uint32_t* failed);

}  // namespace gluond

#endif  // ENGINE_RUNTIME_ROW_CHAIN_H_
