// OptimizerStep: a step of an optimizer of a session, on values of which some may not be known yet. The engine's optimizer makes
// the calls (engine/train/array_update.h); they run as any other call of the session.

#ifndef SERVER_SESSION_OPTIMIZER_STEP_H_
#define SERVER_SESSION_OPTIMIZER_STEP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "engine/imperative/graph_call.h"
#include "engine/imperative/imperative.h"
#include "engine/train/array_update.h"

namespace gluond::server {

// The calls of an update of some weights of certain shapes and types.
struct UpdatePlan {
  struct Prepared {
    PreparedOpPtr op = nullptr;  // Null: the graph.
    std::shared_ptr<CachedGraph> graph = nullptr;
    // A run in place, whose shapes and types are those of a run that has gone well. Only the places of its data differ.
    bool is_checked = false;
    std::vector<TBlob> in = {}, out = {};
    std::vector<OpReqType> req = {};
    std::vector<size_t> weights = {};  // By output: the input in whose place it lies.
  };
  std::vector<uint32_t> places;
  std::vector<Signature> types;
  ArrayUpdate update;
  std::vector<Prepared> calls;  // By call of `update`.
  Tensor numbers;               // For runs in place; undefined: there was none.
  std::shared_ptr<const void> paid;
};

// An optimizer with the weights that it updates, as a client has defined it.
struct OptimizerDefinition {
  struct Weight {
    uint64_t array = 0;
    std::string name;
    double lr_mult = 1, wd_mult = 1;
    std::vector<uint64_t> states;  // Arrays, in the order of `states`; 0: the state is the optimizer's own.
    std::vector<ValuePtr> own;     // Those; null: not made yet.
    int64_t updates = 0;
  };
  std::unique_ptr<const Optimizer> optimizer;
  std::vector<std::string> states;  // The names of a weight's states. Only a weight of 16 bits has weight32, the last one.
  std::vector<Weight> weights;
  bool is_random = false;            // Updates draw random numbers.
  std::shared_ptr<UpdatePlan> plan;  // The last step's; null: there was none.

  // "array 5 (0.weight)".
  std::string NameOf(uint32_t weight) const;
};

// A weight of a step, with the places of its values. A state that has a new name has no place yet.
struct SteppedWeight {
  uint32_t place;  // In OptimizerDefinition::weights.
  UpdateRates rates;
  Array* array;
  ValuePtr gradient;
  absl::InlinedVector<ValuePtr*, 3> states;
};
// Steps within the values' own memory, if this is nobody else's, and a step on such values has gone well. False: nothing is done.
// `status` tells of the operators. Requires: the scheduler's home lane is the caller's, or the result is false.
bool StepInPlace(const OptimizerDefinition& definition, absl::Span<const SteppedWeight> weights, double rescale,
                 Scheduler& scheduler, absl::Status* status);

// Used on the session's lane, as all its values.
class OptimizerStep : public std::enable_shared_from_this<OptimizerStep> {
 public:
  struct Weight {
    uint32_t place;  // In OptimizerDefinition::weights.
    UpdateRates rates;
    ValuePtr weight = nullptr, gradient = nullptr;
    absl::InlinedVector<ValuePtr, 3> states = {};  // Null: it begins as zeros.
    // The values after the step. A state without one has not been made.
    ValuePtr new_weight = nullptr;
    absl::InlinedVector<ValuePtr, 3> new_states = {};
    bool is_awaited = false;      // The new values were promised before the weight's type was known.
    bool lacks_weight32 = false;  // The last state is one of weights of 16 bits, and this is none.
  };

  // `draw`: as of Imperative::Options.
  OptimizerStep(std::shared_ptr<OptimizerDefinition> definition, double rescale, uint32_t draw, uint64_t command)
      : definition_(std::move(definition)), rescale_(rescale), draw_(draw), command_(command) {}

  std::vector<Weight>& weights() { return weights_; }
  // Computes the new values, which are known at once, or will be: where a weight's type is not known yet, after that. Weights
  // and states should have no other holder, so that they are overwritten. `imperative` outlives `alive`, and `pay` pays for nodes.
  void Run(Imperative& imperative, const PayForNodes& pay, std::weak_ptr<const void> alive);

 private:
  void Begin(Imperative& imperative, const PayForNodes& pay);
  // The calls for these weights. INVALID_ARGUMENT: the optimizer cannot update one. RESOURCE_EXHAUSTED: nobody pays.
  absl::StatusOr<std::shared_ptr<UpdatePlan>> Plan(const PayForNodes& pay) const;
  // INVALID_ARGUMENT: a gradient or a state that is known does not fit its weight.
  absl::Status CheckStates() const;
  // Makes the states that there are not yet. A failure: there is no memory.
  FailurePtr MakeStates(Imperative& imperative);
  absl::StatusOr<ValuePtr> Zeros(Imperative& imperative, const ValuePtr& weight, OptimizerState::Form form,
                                 const StateSignature& state) const;
  absl::StatusOr<Tensor> Numbers(Imperative& imperative, const UpdatePlan& plan) const;
  void Call(Imperative& imperative, const ArrayUpdate::ArrayCall& call, UpdatePlan::Prepared& prepared, const Tensor& numbers);
  // The weights fail, and the states stay.
  void Fail(const FailurePtr& failure, ReadyQueue& queue);

  ValuePtr& Before(const ArrayUpdate::WeightPart& place);
  // Gives a weight or a state its new value.
  void Set(const ArrayUpdate::WeightPart& place, ValuePtr value, ReadyQueue& queue);

  const std::shared_ptr<OptimizerDefinition> definition_;
  const double rescale_;
  const uint32_t draw_;
  const uint64_t command_;
  std::vector<Weight> weights_;
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_OPTIMIZER_STEP_H_
