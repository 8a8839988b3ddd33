// GraphCall: a graph that is called like an operator, as a hybridized Block is: `_CachedOp`. A recorded call and its
// gradient, `_backward_CachedOp`, are one run of one program, which pauses between them. The tape's node keeps the run
// that waits, as a hidden output of the call.

#ifndef ENGINE_IMPERATIVE_GRAPH_CALL_H_
#define ENGINE_IMPERATIVE_GRAPH_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/graph.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/tensor.h"
#include "engine/imperative/prepared_op.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/executor_cache.h"
#include "engine/runtime/lane.h"

namespace gluond {

// The graph behind `_CachedOp` or `_backward_CachedOp`. Immutable.
struct GraphCall {
  // Its first outputs are the call's. The gradients of inputs follow where the call has a backward call. Null: this is one.
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> inputs;  // The variables, in the order of the call's inputs.
  std::vector<uint32_t> written;    // The inputs that the graph's operators write.
  // The names of inputs that stay the same from call to call, unless somebody trains. Null: a call to be recorded.
  std::shared_ptr<const absl::flat_hash_set<std::string>> constants;
  uint32_t num_visible = 0;
  bool begins_gradient = false;  // One of the operators begins a gradient.
  // A forward call whose gradient is wanted has the backward call, whose outputs are the gradients of the inputs
  // `gradients`. The backward call reads the head gradients, the run that waits, and then the forward call's inputs
  // `rewritten`, which it writes.
  std::shared_ptr<const GraphCall> backward;
  std::vector<uint32_t> gradients;
  std::vector<uint32_t> rewritten;
  absl::Status no_gradient;   // Why `backward` is null.
  uint32_t paused_input = 0;  // A backward call's: the input that is the run.

  // The graph that `attrs` holds, or null.
  static std::shared_ptr<const GraphCall> Of(const NodeAttrs& attrs);

  // The executor that runs the graph on such inputs.
  ExecutorQuery QueryFor(absl::Span<const Tensor> tensors, bool training) const;
  ExecutorKeyPtr KeyFor(const ExecutorQuery& query) const;
};

// A run that waits for its backward call, as a tensor of the arena's bytes: so the tape keeps it. The tensor's last holder may go
// on with the run itself, others with a copy.
struct PausedCall : Buffer {
  // `took`: how long the run has taken so far. `counted` goes with the run. RESOURCE_EXHAUSTED: `payer` cannot pay for what the
  // host keeps of it.
  static absl::StatusOr<Tensor> Make(PausedRun run, ExecutorKeyPtr key, Lane::Clock::duration took, Allocator& payer,
                                     std::shared_ptr<const void> counted);
  static PausedCall& Of(const Tensor& tensor) { return static_cast<PausedCall&>(*tensor.buffer()); }

  PausedRun run;
  ExecutorKeyPtr key;
  Lane::Clock::duration took;
  std::shared_ptr<const void> counted;
  std::shared_ptr<Buffer> charge;
};

// Pays for so many nodes as long as the result is held. RESOURCE_EXHAUSTED: there is no memory for them.
using PayForNodes = std::function<absl::StatusOr<std::shared_ptr<const void>>(int64_t nodes)>;

// A graph with its GraphCalls.
class CachedGraph {
 public:
  // `parameters`: places in `inputs`. INVALID_ARGUMENT: as Validate, `inputs` are not just the graph's variables, or a
  // parameter is none of them. `pay`, which may be null, pays for what Differentiable makes, and may call ForgetCalls.
  static absl::StatusOr<std::shared_ptr<CachedGraph>> Create(Graph graph, std::vector<std::string> inputs,
                                                             absl::Span<const uint32_t> parameters = {}, PayForNodes pay = nullptr);

  const Graph& graph() const { return *plain_->graph; }
  const std::vector<std::string>& inputs() const { return plain_->inputs; }
  // Whether operators write the input.
  bool is_auxiliary(size_t input) const { return auxiliary_[input]; }

  // A call without a gradient, or one that pauses before the gradients of the inputs in `wanted`. If an operator has no
  // gradient, or nobody can pay for it, Backward says so. Calls are kept for the next time.
  const PreparedOpPtr& plain() const { return plain_call_; }
  PreparedOpPtr Differentiable(const std::vector<bool>& wanted);
  // Lets go of the differentiable calls. Their nodes stay where the tape or an executor has them.
  void ForgetCalls() { differentiable_.Clear(); }

 private:
  CachedGraph(std::shared_ptr<const GraphCall> plain, PayForNodes pay);
  absl::StatusOr<std::shared_ptr<const GraphCall>> WithGradient(const std::vector<bool>& wanted) const;

  const std::shared_ptr<const GraphCall> plain_;
  const PayForNodes pay_;
  const PreparedOpPtr plain_call_;
  std::vector<bool> auxiliary_;  // By input.
  LruMap<std::vector<bool>, PreparedOpPtr> differentiable_;
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_GRAPH_CALL_H_
