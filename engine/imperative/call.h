// Call: one call of an operator with all that the tape and the scheduler have to know of it. Immutable, and may be run any
// number of times, on any inputs.

#ifndef ENGINE_IMPERATIVE_CALL_H_
#define ENGINE_IMPERATIVE_CALL_H_

#include <any>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_facts.h"
#include "engine/imperative/lru_map.h"

namespace gluond {

class GraphCall;

struct Call {
  NodePtr node;  // Its operator, attributes and number of inputs; what the inputs are does not matter.
  bool copies = false;  // From one device to another (copy_call.h).
  std::shared_ptr<const GraphCall> graph;  // Runs in place of a kernel: the graph of _CachedOp, or of an async operator.

  // What the gradient reads: of the inputs, and of the outputs.
  std::vector<bool> gradient_reads_input;
  std::vector<bool> gradient_reads_output;

  const OpFacts& facts() const { return node->facts(); }
};
using CallPtr = std::shared_ptr<const Call>;

// NOT_FOUND: no such operator. INVALID_ARGUMENT: attributes or the number of inputs.
absl::StatusOr<CallPtr> MakeCall(absl::string_view op, const AttrDict& attrs, size_t num_inputs);
// A call of what `node` calls. `recordable`: also finds out what the gradient reads. Requires then: the inputs are
// variables, each another one.
CallPtr CallOf(NodePtr node, bool recordable);
// The calls that somebody makes again and again: the same call finds its executors again, where a new one would have them
// compiled. It keeps a bounded number, the most recently used. Not thread-safe.
class CallTable {
 public:
  explicit CallTable(size_t most) : calls_(most) {}

  // The call that `make`, or an earlier caller's, made for these.
  absl::StatusOr<CallPtr> Find(absl::string_view op, const AttrDict& attrs, size_t num_inputs,
                               absl::FunctionRef<absl::StatusOr<CallPtr>()> make);

 private:
  LruMap<std::string, CallPtr> calls_;
};

// A node of an operator that no client can name: `parsed` stands in for its attributes.
NodePtr MakeUnnamed(const char* op, std::any parsed, std::vector<NodeEntry> inputs);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_CALL_H_
