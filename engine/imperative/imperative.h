// Imperative is the engine behind an NDArray API: it runs operators on arrays as they come, records calls on request,
// and computes gradients of recorded calls.
//
//   Imperative imperative(Scheduler::Create({{device, &lane, allocator}}));
//   Array y = imperative.Invoke(*PrepareOp("sigmoid", {}, 1), {x}, {.recording = true}).outputs[0];
//   auto dx = imperative.Backward({y}, {}, {x}, {});
//
// An operator runs within Invoke when its inputs are known, otherwise later (scheduler.h). An error makes the outputs
// fail; Invoke itself never fails. A gradient of many operators takes turns with the lane's other users. Only the
// scheduler's lane uses an Imperative; work under way may outlive it.

#ifndef ENGINE_IMPERATIVE_IMPERATIVE_H_
#define ENGINE_IMPERATIVE_IMPERATIVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/device.h"
#include "engine/imperative/array.h"
#include "engine/imperative/graph_call.h"
#include "engine/imperative/prepared_op.h"
#include "engine/imperative/scheduler.h"
#include "engine/imperative/tape.h"
#include "engine/runtime/random_state.h"

namespace gluond {

struct BackwardPlan;
using BackwardPlanPtr = std::shared_ptr<const BackwardPlan>;

class Imperative {
 public:
  // `most_nodes`: as of Tape.
  explicit Imperative(std::shared_ptr<Scheduler> scheduler, int64_t most_nodes = 1'000'000);

  struct Options {
    bool recording = false;  // Records the call if an input's gradient is wanted.
    bool training = false;
    Device device = {};                           // For an operator without inputs.
    uint64_t command = 0;                         // The caller's number, for failures.
    const std::vector<bool>* wanted = nullptr;    // By output, hidden ones too. Null: the visible ones.
    std::optional<uint32_t> draw = std::nullopt;  // A number of TakeDraw. None: a call that may draw numbers takes the next.
  };
  struct Results {
    std::vector<Array> outputs;                          // The visible ones, or, with Options::wanted, all; empty where not wanted.
    std::vector<std::pair<uint32_t, ValuePtr>> written;  // New values of inputs that the call writes.
  };
  // The call may overwrite an input that nobody else holds: so move in an array that is about to be replaced.
  Results Invoke(const PreparedOpPtr& op, std::vector<Array> inputs, const Options& options);
  Results InvokeGraph(CachedGraph& graph, std::vector<Array> inputs, const Options& options);

  // The array in memory of `device`: `array` itself if it is known to be there already.
  Array CopyTo(Array array, Device device, const Options& options);

  struct BackwardOptions {
    bool retain_graph = false;
    bool create_graph = false;    // Implies retain_graph.
    bool training = true;         // For what no recorded call makes: a call's gradient has the call's own mode.
    bool skip_constants = false;  // Leaves out heads that were not recorded.
    std::string stop_at;          // For BackwardWalk: the operator whose nodes the caller computes. Empty: none.
    // The array of an Array::state, null if it is gone: a gradient that writes it reads its value of that moment.
    std::function<Array*(uint64_t)> find_state;
    uint64_t command = 0;
  };
  struct Gradient {
    MarkPtr mark;  // The variable's; null where `variables` were given.
    Array array;
  };
  // The gradients of sum_i head_gradients[i] heads[i] (an empty array: ones): of `variables`, or, when there are none,
  // of every marked array that the heads depend on. FAILED_PRECONDITION: nothing was recorded, or it was freed.
  // INVALID_ARGUMENT: a variable that the heads do not depend on, an operator without gradient on the way, a head
  // gradient that is not like its head.
  absl::StatusOr<std::vector<Gradient>> Backward(absl::Span<const Array> heads, absl::Span<const Array> head_gradients,
                                                 absl::Span<const Array> variables, const BackwardOptions& options);
  // Backward in steps: backward_walk.h.
  class BackwardWalk;

  // Count for the random operators that run from now on.
  void Seed(uint64_t seed) { random_ = {seed}; }
  // A number for the random operators of one call, which has no other.
  uint32_t TakeDraw() { return random_.runs++; }
  void SetRandom(const RandomState& random) { random_ = random; }
  const RandomState& random() const { return random_; }

  Scheduler& scheduler() const { return *scheduler_; }
  const Tape& tape() const { return tape_; }
  // The nodes of the plans that are kept for later backward passes, and their end.
  int64_t planned() const { return *planned_; }
  void ForgetPlans() { plans_.Clear(); }

 private:
  // `now`: as of Scheduler::Run.
  Results Begin(const PreparedOpPtr& op, std::vector<Array> inputs, const Options& options, bool now);
  // A call of a gradient's node. Calls that need a compiled executor are kept and returned again.
  PreparedOpPtr GradientCall(const NodePtr& node, bool recordable);

  const std::shared_ptr<Scheduler> scheduler_;
  const Tape tape_;
  RandomState random_;
  PreparedOps gradient_calls_;
  const std::shared_ptr<int64_t> planned_ = std::make_shared<int64_t>(0);
  LruMap<std::vector<uint64_t>, BackwardPlanPtr> plans_;  // By the form of the tape.
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_IMPERATIVE_H_
