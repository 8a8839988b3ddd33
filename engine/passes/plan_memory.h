// PlanMemory says where every entry of a graph lies while the graph runs: at an offset in one arena. Entries that are not
// alive at the same time share memory, and FInplaceOption or FInplaceIdentity allows an output in its input's place. Some
// sums are written by kAddTo: those of a _grad_add, _grad_sum or two-input add_n whose later term has the sum's type, and
// whose maker serves nothing else.
//
// An executor runs the nodes that are not skipped, in the IndexedGraph's order, each with the memory and requests
// below. Then the executor copies (or adds) some outputs to the caller: each that lies in the arena or is a
// variable, and each second mention of an output. An output that nodes read is copied, too, unless its request is
// kWriteTo.

#ifndef ENGINE_PASSES_PLAN_MEMORY_H_
#define ENGINE_PASSES_PLAN_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"
#include "engine/passes/infer.h"

namespace gluond {

struct MemoryPlan {
  // The caller's memory: a variable, or an output of the graph. An output that no node reads may be written with the
  // caller's request. An output that nodes read must hold its own value until they have read the value: its request
  // can only be kWriteTo. (An output that some node mutates lies in the arena until the end.)
  static constexpr int64_t kExternal = -1;
  // No memory: nobody reads it. Its request is kNullOp.
  static constexpr int64_t kNone = -2;

  // By entry id: a byte offset in the arena (a multiple of 64), kExternal or kNone.
  std::vector<int64_t> offset;
  // By entry id: how its node writes it. For an output of the graph in the caller's memory: kWriteTo stands for the
  // caller's request.
  std::vector<OpReqType> req;
  // By entry id: the entry whose memory this entry has, or -1. Such an entry is an identity of a variable or of an
  // output in the caller's memory, and nothing mutates that memory (the entry's offset is kExternal).
  std::vector<int32_t> alias;
  // By node id: true for a node that is not run. Such a node is a variable, an identity in place, or a sum that
  // kAddTo has written; or nobody reads the node's results and the node does nothing else.
  std::vector<bool> skipped;

  int64_t arena_bytes = 0;
  // The bytes that all nodes' outputs would take with memory of their own, without those in the caller's memory.
  int64_t unshared_bytes = 0;
};

// Lifetimes follow the topological order in which nodes run, one at a time. An input that FMutateInputs names keeps
// memory of its own from its making to the end. An input that FIgnoreInputs names does not count as read: the
// input's blob may hold anything, or nullptr. Requires: `inferred` is complete. INVALID_ARGUMENT: the sizes add up
// to more than 2^62 bytes.
//
// `num_first`: the graph's first outputs are made before the caller tells where the others are to lie (0: all are told). Another
// output that a node makes that early lies in the arena until the end.
absl::StatusOr<MemoryPlan> PlanMemory(const IndexedGraph& graph, const Inferred& inferred, size_t num_first = 0);

}  // namespace gluond

#endif  // ENGINE_PASSES_PLAN_MEMORY_H_
