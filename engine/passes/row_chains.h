// FindRowChains: runs of calls that treat the rows of a batch, its first axis, apart from one another (TBatchInputs). An
// executor computes such a chain in chunks of a few rows: all its calls for these, one after the other. So what one call
// hands to the next stays in the processor's cache, and threads share the rows once and not at each call.
//
// Chunks depend on the shapes only: results have the same bits however many threads there are.

#ifndef ENGINE_PASSES_ROW_CHAINS_H_
#define ENGINE_PASSES_ROW_CHAINS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"
#include "engine/passes/infer.h"
#include "engine/passes/plan_memory.h"

namespace gluond {

// Steps that are computed a few rows at a time (row_chain.h).
struct RowChain {
  struct Operand {
    enum Kind : uint8_t {
      kWhole,  // Each chunk sees all of it.
      kRows,   // A chunk sees its rows, where the program has them.
      kLocal,  // A chunk has rows of its own, which nobody else sees.
    };
    Kind kind = kWhole;
    OpReqType req = kWriteTo;  // The request for an output that is kLocal.
    int64_t row_bytes = 0;
    size_t offset = 0;  // In the chunk's space: kLocal.
  };

  uint32_t first = 0, last = 0;    // Steps [first, last).
  int64_t rows = 0, chunks = 0;    // Chunk i has the rows from i * rows / chunks on.
  int64_t whole_bytes = 0;         // Bytes that each chunk reads whole.
  std::vector<Operand> ins, outs;  // The steps' operands, one step after the other.
  size_t local_bytes = 0;          // A chunk's space.
  size_t scratch_bytes = 0;        // The most that a step of a chunk has asked for so far.
};

// The chains of a graph for a CPU. Steps are the nodes that the plan does not skip, in their order. No step of which
// `apart` is true (by node) is part of a chain. CANCELLED or DEADLINE_EXCEEDED: see pass_work.h.
absl::StatusOr<std::vector<RowChain>> FindRowChains(const IndexedGraph& graph, const Inferred& inferred, const MemoryPlan& plan,
                                                    const std::vector<bool>& apart);

}  // namespace gluond

#endif  // ENGINE_PASSES_ROW_CHAINS_H_
