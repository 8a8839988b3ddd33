// PlanMemory: where every entry of a graph lies while it runs: offsets in one arena, shared by entries that are not
// alive at the same time, in place where FInplaceOption or FInplaceIdentity allows, and sums written by kAddTo (a
// _grad_add, _grad_sum or two-input add_n whose later term, of the sum's type, is made by a node that serves nothing else).
//
// An executor runs the nodes that are not skipped, in the IndexedGraph's order, each with the memory and requests
// below; then it copies (or adds) to the caller each output that lies in the arena or is a variable, each second
// mention of an output, and each output that nodes read and whose request is not kWriteTo.

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
  // The caller's memory: a variable, or an output of the graph. An output that no node reads may be written with the
  // caller's request; one that nodes read must hold its own value until they have, so that kWriteTo alone will do. (An
  // output that some node mutates lies in the arena until the end.)
  static constexpr int64_t kExternal = -1;
  // No memory: nobody reads it. Its request is kNullOp.
  static constexpr int64_t kNone = -2;

  // By entry id: a byte offset in the arena (a multiple of 64), kExternal or kNone.
  std::vector<int64_t> offset;
  // By entry id: how its node writes it. For an output of the graph in the caller's memory: kWriteTo stands for the
  // caller's request.
  std::vector<OpReqType> req;
  // By entry id: the entry whose memory it has, where it is an identity of a variable or of an output in the caller's
  // memory and nothing mutates that (its offset is kExternal); otherwise -1.
  std::vector<int32_t> alias;
  // By node id: true for a node that is not run: a variable; a node whose results nobody reads and that does nothing
  // else; an identity in place; a sum that kAddTo has written.
  std::vector<bool> skipped;

  int64_t arena_bytes = 0;
  // The bytes that all nodes' outputs would take with memory of their own, without those in the caller's memory.
  int64_t unshared_bytes = 0;
};

// Lifetimes follow the topological order in which nodes run, one at a time. Inputs that FMutateInputs names keep
// memory of their own from when they are made to the end; those that FIgnoreInputs names do not count as reads, so
// their blobs may hold anything, or nullptr. Requires: `inferred` is complete. INVALID_ARGUMENT: the sizes add up to
// more than 2^62 bytes.
absl::StatusOr<MemoryPlan> PlanMemory(const IndexedGraph& graph, const Inferred& inferred);

}  // namespace gluond

#endif  // ENGINE_PASSES_PLAN_MEMORY_H_
