// PreparedOp: an operator with its attributes, and all facts of it that the tape and the scheduler need. It is
// immutable and runs any number of times, on any inputs.

#ifndef ENGINE_IMPERATIVE_PREPARED_OP_H_
#define ENGINE_IMPERATIVE_PREPARED_OP_H_

#include <any>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/lru_map.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_facts.h"

namespace gluond {

struct GraphCall;

struct PreparedOp {
  NodePtr node;                            // Only its operator, attributes and number of inputs count.
  bool copies = false;                     // From one device to another (copy_op.h).
  std::shared_ptr<const GraphCall> graph;  // Runs instead of a kernel: the graph of _CachedOp, or of an async operator.

  // By input, and by output: whether the gradient reads it.
  std::vector<bool> gradient_reads_input;
  std::vector<bool> gradient_reads_output;

  const OpFacts& facts() const { return node->facts(); }
};
using PreparedOpPtr = std::shared_ptr<const PreparedOp>;

// NOT_FOUND: no such operator. INVALID_ARGUMENT: attributes or the number of inputs.
absl::StatusOr<PreparedOpPtr> PrepareOp(absl::string_view op, const AttrDict& attrs, size_t num_inputs);
// The node's operator. `recordable`: also finds the inputs and outputs that the gradient reads; this requires that
// the node's inputs are distinct variables.
PreparedOpPtr Prepared(NodePtr node, bool recordable);
// PreparedOps keeps a bounded number of prepared operators, the most recently used, for reuse: a kept one finds its
// compiled executors again, a new one has none. Not thread-safe.
class PreparedOps {
 public:
  explicit PreparedOps(size_t most) : ops_(most) {}

  // The operator that `make`, or an earlier caller's `make`, made for these arguments.
  absl::StatusOr<PreparedOpPtr> Find(absl::string_view op, const AttrDict& attrs, size_t num_inputs,
                                     absl::FunctionRef<absl::StatusOr<PreparedOpPtr>()> make);

 private:
  LruMap<std::string, PreparedOpPtr> ops_;
};

// A node of an operator that no client can name: `parsed` stands in for its attributes.
NodePtr MakeInternalNode(const char* op, std::any parsed, std::vector<NodeEntry> inputs);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_PREPARED_OP_H_
