// PlanMemory: where every entry of a graph lies while it runs: offsets in one arena, shared by entries that are not
// alive at the same time, in place where FInplaceOption or FInplaceIdentity allows, and sums written by kAddTo
// (a _grad_add or two-input add_n whose one term is made by a node that serves nothing else).

#ifndef ENGINE_PASSES_PLAN_MEMORY_H_
#define ENGINE_PASSES_PLAN_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"
#include "engine/passes/infer.h"

namespace gluond {

struct MemoryPlan {
  static constexpr int64_t kExternal = -1;  // A variable or an output of the graph: the caller's memory.
  static constexpr int64_t kNone = -2;      // Nobody reads it, and its node may leave it out (kNullOp).

  // By entry id: a byte offset in the arena (a multiple of 64), kExternal or kNone.
  std::vector<int64_t> offset;
  // By entry id: how the node that makes it writes it. For an output of the graph it is decided when the graph runs.
  std::vector<OpReqType> req;
  // By node id: true for a node that is not run, because another one writes its result (a _grad_add that became
  // kAddTo, an identity in place).
  std::vector<bool> skipped;
  // By entry id: the external entry whose memory it shares, when an identity or a kAddTo chain ends in an output of
  // the graph; otherwise -1.
  std::vector<int32_t> alias;

  int64_t arena_bytes = 0;
  int64_t unshared_bytes = 0;  // What the same entries would take with memory of their own.
};

// Lifetimes follow the topological order in which nodes run. Mutated inputs (FMutateInputs) are never shared.
// The outputs of a kAsync node and its inputs stay apart from everything that may run meanwhile (nothing of the same
// graph does: a run goes on after the node).
absl::StatusOr<MemoryPlan> PlanMemory(const IndexedGraph& graph, const Inferred& inferred);

}  // namespace gluond

#endif  // ENGINE_PASSES_PLAN_MEMORY_H_
