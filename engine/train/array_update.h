// ArrayUpdate: an optimizer's update of arrays that somebody else holds, as calls of operators. An Updater does the same for
// a model's parameters, as the rest of a step's graph. Immutable.
//
//   ASSIGN_OR_RETURN(const ArrayUpdate update, ArrayUpdate::Make(*optimizer, {{"0.weight", shape, DType::kFloat32}}));
//   for (const ArrayUpdate::ArrayCall& call : update.calls()) ...

#ifndef ENGINE_TRAIN_ARRAY_UPDATE_H_
#define ENGINE_TRAIN_ARRAY_UPDATE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/graph.h"
#include "engine/train/optimizer.h"

namespace gluond {

class ArrayUpdate {
 public:
  struct Weight {
    std::string name;
    Shape shape;
    DType dtype;
  };
  // A tensor of a weight: itself, its gradient, or one of its states, in the order of StatesOf.
  struct WeightPart {
    static constexpr size_t kWeight = 0, kGradient = 1, kFirstState = 2;
    size_t weight;  // By index.
    size_t part;
  };
  // A call that reads and writes such tensors. All calls are independent of each other.
  struct ArrayCall {
    // One operator, whose inputs are variables, or a graph.
    NodePtr node;
    std::vector<NodeEntry> outputs;  // The graph's.
    // The inputs in order: the numbers' variables come first. `names` has them all.
    std::vector<JointUpdate::Variable> numbers;
    std::vector<WeightPart> inputs;
    std::vector<std::string> names;
    // New values of weights and of states, by output.
    std::vector<WeightPart> results;
  };

  // INVALID_ARGUMENT: a weight that the optimizer cannot update.
  static absl::StatusOr<ArrayUpdate> Make(const Optimizer& optimizer, absl::Span<const Weight> weights);

  const std::vector<ArrayCall>& calls() const { return calls_; }
  // The numbers that calls read, 8 bytes for each, by JointUpdate::Variable::first. The index of a place is the weight's.
  const std::vector<NumberPlace>& numbers() const { return numbers_; }

 private:
  std::vector<ArrayCall> calls_;
  std::vector<NumberPlace> numbers_;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_ARRAY_UPDATE_H_
