// A RowChain is a run of a program's steps that treat the rows of a batch, its first axis, apart from one another. It is
// computed in chunks of a few rows: all steps for these, one after the other. So what one step hands to the next stays in
// the processor's cache, and threads share the rows once and not at each step. Private to engine/runtime.
//
// Chunks depend on the shapes only: results have the same bits however many threads there are.

#ifndef ENGINE_RUNTIME_ROW_CHAIN_H_
#define ENGINE_RUNTIME_ROW_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/graph.h"
#include "engine/core/op_context.h"
#include "engine/passes/infer.h"
#include "engine/passes/plan_memory.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/program.h"

namespace gluond {

// The chains of a program for a CPU. `nodes`: by step, the node's id in `graph`.
std::vector<RowChain> FindRowChains(const IndexedGraph& graph, const Inferred& inferred, const MemoryPlan& plan,
                                    const std::vector<uint32_t>& nodes);

// Whether the run may compute the chain by rows. No output may lie where another chunk still reads; tensors that each
// chunk reads whole must be small, or constant.
bool MayComputeByRows(const Program& program, const RowChain& chain, bool has_constants);

// How many chunks the context's threads compute at once, and the bytes of space that each of them takes.
int ChunksAtOnce(const RowChain& chain, const OpContext& context);
inline size_t ChunkSpace(const RowChain& chain) { return chain.local_bytes + chain.scratch_bytes; }

// Runs the chain's steps, `at_once` chunks at a time, in as many times ChunkSpace and context.scratch. `cancellation`, which
// may be null, is asked before each chunk. A failure names its step in *failed.
absl::Status ComputeByRows(const Program& program, const OpContext& context, int at_once, void* space, RowChain* chain,
                           const Cancellation* cancellation, uint32_t* failed);

}  // namespace gluond

#endif  // ENGINE_RUNTIME_ROW_CHAIN_H_
