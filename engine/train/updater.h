// Updater: an optimizer at work on a model's parameters: the states, and the nodes that update parameters, which are the
// last part of a step's graph. Only the model's strand uses it.
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

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/graph.h"
#include "engine/nn/bound_graph.h"
#include "engine/nn/model.h"
#include "engine/train/optimizer.h"
#include "engine/train/update_graph.h"

namespace gluond {

class Updater {
 public:
  // `model` must outlive it.
  Updater(Model& model, std::unique_ptr<Optimizer> optimizer);

  const Optimizer& optimizer() const { return *optimizer_; }

  // The numbers of some parameters' updates, which each step sets.
  struct Numbers {
    std::vector<NumberPlace> places;
    Tensor host, device;  // 8 bytes for each place. On a CPU they are the same.
  };
  // The update of parameters (by index of `store`), whose shapes are known, from these gradients, as the rest of a graph that has
  // the outputs `first`. `joint` has names that no variable of that graph has. Any thread. INVALID_ARGUMENT: a weight that the
  // optimizer cannot update.
  absl::StatusOr<GraphRest> Build(const ParameterStore& store, absl::Span<const size_t> parameters,
                                  absl::Span<const NodeEntry> gradients, absl::Span<const NodeEntry> first,
                                  JointUpdate* joint) const;
  // Memory for the numbers of that update, which are variables of the rest, too.
  absl::StatusOr<Numbers> MakeNumbers(const JointUpdate& joint, GraphRest* rest) const;
  // The gradient that a parameter has, as a variable of a graph.
  BoundVariable Gradient(size_t parameter, const std::string& prefix) const;

  // Finds memory for an update of these parameters, which have gradients. New parameters need states, zero at first; values that
  // a snapshot holds need copies. RESOURCE_EXHAUSTED: nothing has changed. To be called within the same task of the strand as
  // the update.
  absl::Status MakeWritable(absl::Span<const size_t> parameters);
  // Sets the numbers of the next update: with the learning rate `lr` times the parameters' own multipliers, from their gradients
  // times `rescale`.
  absl::Status SetNumbers(const Numbers& numbers, double lr, double rescale) const;
  // Counts an update of these parameters.
  void Count(absl::Span<const size_t> parameters);

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
  };

  std::vector<StateSignature> StatesOf(const Parameter& parameter) const {
    return gluond::StatesOf(*optimizer_, parameter.shape, parameter.dtype);
  }
  // Gives all states of the parameter memory that no snapshot holds, so that it may be written.
  absl::Status OwnStates(size_t parameter);
  // The places of `states`, with memory allocated.
  absl::StatusOr<std::vector<Target>> PrepareTargets(const NamedTensors& states);
  absl::Status CopyStates(const NamedTensors& states, const std::vector<Target>& targets);
  Model& model_;
  Lane& lane_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::vector<Slot> slots_;  // By parameter.
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_UPDATER_H_
