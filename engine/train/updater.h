// Updater: an optimizer at work on a model's parameters: the states, and one graph that updates all parameters and
// tells the norm of their gradients. For work on the model's strand.
//
// A state has its parameter's type, or float32 where that has 16 bits, in which averages of squares become zero and
// small steps are lost. With the optimizer's multi_precision such a parameter has one more state, "weight32": the
// weight that steps add up in, of which the parameter is a copy. Where the parameter has been set to other values
// since, or there has been no step, the next step begins from the parameter.

#ifndef ENGINE_TRAIN_UPDATER_H_
#define ENGINE_TRAIN_UPDATER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/nn/model.h"
#include "engine/runtime/executor.h"
#include "engine/train/optimizer.h"

namespace gluond {

class Updater {
 public:
  // `model` must outlive it.
  Updater(Model& model, std::unique_ptr<Optimizer> optimizer);

  const Optimizer& optimizer() const { return *optimizer_; }

  // Finds memory for an update of these parameters (by index), which have gradients: states, zero at first, where it
  // meets a parameter for the first time, and copies of what a snapshot holds. RESOURCE_EXHAUSTED: nothing has changed.
  absl::Status MakeWritable(absl::Span<const size_t> parameters);
  // Updates the parameters with the learning rate `lr` times their own multipliers, from their gradients times
  // `rescale`. Requires: MakeWritable within the same task of the strand. `with_norm`: computes what GradientNorm tells
  // in the same run, whose end that call waits for; otherwise this one does.
  absl::Status Update(absl::Span<const size_t> parameters, double lr, double rescale, bool with_norm);

  // Puts the L2 norm of the gradients of these parameters together on the lane's stream, and no update.
  absl::Status StartNorm(absl::Span<const size_t> parameters);
  // Waits for the norm that the last run of either kind computed of these parameters.
  absl::StatusOr<double> GradientNorm(absl::Span<const size_t> parameters);

  // The states' tensors as they are, on the device, which keep their contents as long as somebody holds them. Names are
  // "<parameter>/<state>".
  NamedTensors HoldStates() const;
  std::vector<std::pair<std::string, int64_t>> SnapshotUpdates() const;
  // INVALID_ARGUMENT: states that this optimizer, or the model, does not have, or of another shape or type. A state of
  // 16 bits is taken for a float32 one, for the sake of checkpoints that have such. All or nothing.
  absl::Status Restore(const NamedTensors& states, const std::vector<std::pair<std::string, int64_t>>& updates);
  // The same, but that other states stay as they are.
  absl::Status SetStates(const NamedTensors& states);
  // As if every parameter with a gradient had seen `updates`, and no other had seen any.
  void SetUpdates(int64_t updates);

 private:
  struct Target {
    size_t parameter;
    size_t state;
  };
  struct Slot {
    std::vector<Tensor> states;
    int64_t updates = 0;
    // The parameter's node of the graph; null where it has none.
    NodePtr update;
    size_t place = 0;  // The update's among the outputs, and the gradient's among the squares.
    Tensor grad;       // The gradient that the update reads.
  };

  bool HasWeight32(const Parameter& parameter) const;
  std::vector<std::string> StateNames(const Parameter& parameter) const;
  // Memory for all states, which may be written: no snapshot holds it.
  absl::Status OwnStates(size_t parameter);
  // Where `states` belong, with memory there.
  absl::StatusOr<std::vector<Target>> PrepareTargets(const NamedTensors& states);
  absl::Status CopyStates(const NamedTensors& states, const std::vector<Target>& targets);
  // Compiles the graph, unless it has these parameters. Those that it had stay: a step that leaves some out, or takes
  // them up again, compiles nothing.
  absl::Status Prepare(absl::Span<const size_t> parameters);
  absl::Status Compile(absl::Span<const size_t> members);
  // Runs the graph for what is wanted of it.
  absl::Status Run(absl::Span<const size_t> updates, bool norm);

  Model& model_;
  Lane& lane_;
  const std::unique_ptr<Optimizer> optimizer_;
  const std::string op_;
  const std::vector<std::string> state_names_;
  std::vector<Slot> slots_;  // By parameter.

  // Outputs: each parameter, updated in place, and the squares of all gradients.
  std::unique_ptr<Executor> executor_;
  gluond::Run run_;  // The executor's last one. Between two runs it holds no tensors.
  std::vector<const Tensor*> inputs_, outputs_;  // The tensors that a run binds.
  Tensor squares_, host_squares_;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_UPDATER_H_
