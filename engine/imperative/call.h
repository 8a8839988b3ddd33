// Call: one call of an operator, made ready: its attributes parsed, its kernels and facts looked up, so that running it
// costs little more than the kernel. Immutable, and may be run any number of times, on any inputs.

#ifndef ENGINE_IMPERATIVE_CALL_H_
#define ENGINE_IMPERATIVE_CALL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/op.h"
#include "engine/core/op_attr_types.h"

namespace gluond {

class GraphCall;

struct Call {
  NodePtr node;  // Its operator, attributes and number of inputs; what the inputs are does not matter.
  uint32_t num_outputs = 1;
  uint32_t num_visible = 1;
  std::vector<uint32_t> written;               // The inputs that it writes.
  std::vector<std::pair<int, int>> in_place;   // (input, output) that may share memory.
  std::vector<bool> identity;                  // Which of those are the same bytes.
  bool draws = false;                          // Random numbers.
  bool copies = false;                         // From one device to another (copy_call.h).
  const FInferShape* infer_shape = nullptr;
  const FInferType* infer_type = nullptr;
  const FCompute* compute[2] = {};             // For the CPU, for a GPU.
  std::shared_ptr<const GraphCall> graph;      // What runs instead of a kernel: of _CachedOp; of what may wait.

  // What the gradient reads: of the inputs, and of the outputs.
  std::vector<bool> gradient_reads_input;
  std::vector<bool> gradient_reads_output;

  static size_t Index(DeviceType device) { return device == DeviceType::kCpu ? 0 : 1; }
};
using CallPtr = std::shared_ptr<const Call>;

// NOT_FOUND: no such operator. INVALID_ARGUMENT: attributes or the number of inputs.
absl::StatusOr<CallPtr> MakeCall(absl::string_view op, const AttrDict& attrs, size_t num_inputs);
// A call of what `node` calls. `recordable`: also finds out what the gradient reads. Requires then: the inputs are
// variables, each another one.
CallPtr CallOf(NodePtr node, bool recordable);
// Operators that wait for others or keep a state: an executor runs them, which is compiled for the call.
bool NeedsExecutor(const NodeAttrs& attrs);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_CALL_H_
