// Updater: an optimizer at work on a model's parameters: the states, and one graph that updates all parameters and
// tells the norm of their gradients. Only the model's strand uses it.
//
// A state has its parameter's type, but float32 for a type of 16 bits, in which averages of squares become zero and
// small steps are lost. OptimizerState knows the states of another form. With the optimizer's multi_precision a
// parameter of 16 bits has one more state, "weight32": the weight in which steps add up, and of which the parameter is
// a copy. If there has been no step, or the parameter has been set since the last one, the next step begins from the
// parameter.

#ifndef ENGINE_TRAIN_UPDATER_H_
#define ENGINE_TRAIN_UPDATER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/graph.h"
#include "engine/nn/model.h"
#include "engine/runtime/executor.h"
#include "engine/train/optimizer.h"
#include "engine/train/update_graph.h"

namespace gluond {

class Updater {
 public:
  // `model` must outlive it.
  Updater(Model& model, std::unique_ptr<Optimizer> optimizer);

  const Optimizer& optimizer() const { return *optimizer_; }

  // Finds memory for an update of these parameters (by index), which have gradients. New parameters need states, zero
  // at first; values that a snapshot holds need copies. RESOURCE_EXHAUSTED: nothing has changed.
  absl::Status MakeWritable(absl::Span<const size_t> parameters);
  // Updates the parameters with the learning rate `lr` times their own multipliers, from their gradients times
  // `rescale`. Requires: MakeWritable within the same task of the strand. `with_norm`: the same run
  // computes the norm, and GradientNorm waits for its end; otherwise Update waits for the end. RESOURCE_EXHAUSTED: there
  // is no memory for what operators compute with, and nothing has changed.
  absl::Status Update(absl::Span<const size_t> parameters, double lr, double rescale, bool with_norm);

  // Puts the computation of the L2 norm of all these parameters' gradients on the lane's stream, and no update.
  absl::Status StartNorm(absl::Span<const size_t> parameters);
  // Waits for the norm of these parameters' gradients, which the last Update or StartNorm computes.
  absl::StatusOr<double> GradientNorm(absl::Span<const size_t> parameters);

  // The states' tensors as they are, on the device, which keep their contents as long as somebody holds them. Names are
  // "<parameter>/<state>".
  NamedTensors HoldStates() const;
  std::vector<std::pair<std::string, int64_t>> SnapshotUpdates() const;
  // INVALID_ARGUMENT: states that this optimizer, or the model, does not have, or of another shape or type. A float32
  // state may be given in 16 bits, as some checkpoints have it. States lie on the host or on the device. All or none.
  absl::Status Restore(const NamedTensors& states, const std::vector<std::pair<std::string, int64_t>>& updates);
  // As Restore, but other states stay as they are.
  absl::Status SetStates(const NamedTensors& states);
  // Sets the number of updates: `updates` for every parameter with a gradient, 0 for all others.
  void SetUpdates(int64_t updates);

 private:
  struct Target {
    size_t parameter;
    size_t state;
  };
  struct Slot {
    std::vector<Tensor> states;
    int64_t updates = 0;
    // The update in the graph, if it is there.
    bool in_graph = false;
    std::vector<NumberPlace> numbers;
    size_t first_output = 0, num_outputs = 0;
    size_t square = 0;  // The gradient's place among the squares.
    Tensor grad;        // The gradient that the update reads.
  };

  // A state as it lies in memory.
  struct StateSignature {
    std::string name;
    Shape shape;
    DType dtype;
  };

  bool HasWeight32(const Parameter& parameter) const;
  std::vector<StateSignature> StatesOf(const Parameter& parameter) const;
  // Gives all states of the parameter memory that no snapshot holds, so that it may be written.
  absl::Status OwnStates(size_t parameter);
  // The places of `states`, with memory allocated.
  absl::StatusOr<std::vector<Target>> PrepareTargets(const NamedTensors& states);
  absl::Status CopyStates(const NamedTensors& states, const std::vector<Target>& targets);
  // Compiles the graph, unless it has these parameters. Its earlier parameters stay: a step that leaves some out, or
  // takes them up again, compiles nothing.
  absl::Status Prepare(absl::Span<const size_t> parameters);
  absl::Status Compile(absl::Span<const size_t> members);
  // A graph to be compiled, and the tensors that its variables are bound to.
  struct Draft {
    Graph graph;
    Signatures known;
    absl::flat_hash_map<std::string, const Tensor*> memory;  // By variable.

    NodeEntry Variable(const std::string& name, const Tensor& tensor);
  };
  // Adds the update of a parameter; the entry is its gradient.
  absl::StatusOr<NodeEntry> AddUpdate(size_t parameter, Draft* draft);
  // Runs the graph for these updates, or for the norm, or both.
  absl::Status Run(absl::Span<const size_t> updates, bool norm);

  Model& model_;
  Lane& lane_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::vector<Slot> slots_;  // By parameter.

  // Outputs: the squares of all gradients; each parameter and those of its states that no operator writes, updated in
  // place.
  std::unique_ptr<Executor> executor_;
  gluond::Run run_;                              // The executor's last run. Holds no tensors between two runs.
  std::vector<const Tensor*> inputs_, outputs_;  // The tensors that a run binds.
  Tensor squares_, host_squares_;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_UPDATER_H_
