// A backward pass: the gradient of the recorded calls is a graph of the engine's operators. The graph's nodes are
// invoked one by one, each with the values that the tape kept for the node. Training records the same calls in each
// step: the calls of the gradient are planned once for tapes of one form.

#ifndef ENGINE_IMPERATIVE_BACKWARD_WALK_H_
#define ENGINE_IMPERATIVE_BACKWARD_WALK_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/op_facts.h"
#include "engine/imperative/imperative.h"
#include "engine/passes/gradient.h"

namespace gluond {

// The calls of a backward pass over tapes of one form. Immutable. Values have numbers: first those that the tape has, by
// node and output, then the outputs of each call in turn.
struct BackwardPlan {
  struct Recorded {
    uint32_t node;  // Its place in the tape.
    uint32_t output;
    auto operator<=>(const Recorded&) const = default;
  };
  struct Planned {
    PreparedOpPtr op;
    std::vector<uint32_t> inputs;
    uint32_t first_output;
    std::vector<bool> wanted;  // By output.
    bool training;
  };

  std::vector<Recorded> recorded;  // In order.
  std::vector<Planned> calls;
  std::vector<uint32_t> gradients;
  std::vector<uint32_t> uses;           // By value: how often calls and `gradients` read it.
  std::shared_ptr<const void> counted;  // The plan's part of Imperative::planned.

  // The number that a value of the tape has, if it is among `recorded`.
  uint32_t NumberOf(const Recorded& value) const;
};

// A walk belongs to one Imperative, which outlives it.
class Imperative::BackwardWalk {
 public:
  BackwardWalk(Imperative& imperative, const BackwardOptions& options) : imperative_(imperative), options_(options) {}

  // As Imperative::Backward. The recorded arrays may change afterwards.
  absl::Status Begin(absl::Span<const Array> heads, absl::Span<const Array> head_gradients, absl::Span<const Array> variables);
  // Goes on to the next node of BackwardOptions::stop_at, or to the end: null.
  absl::StatusOr<const Node*> Run();
  // The inputs of the node where it stopped.
  const std::vector<Array>& inputs() const { return inputs_; }
  // Gives that node its outputs with their history; Run goes on behind the node. Each output must be like the input of
  // the same index; this is checked.
  absl::Status Continue(std::vector<Array> outputs);
  // The gradients, at the end.
  absl::StatusOr<std::vector<Gradient>> Take();

 private:
  class History;
  class Planner;

  // The plan for tapes like this one, made before or now.
  absl::StatusOr<BackwardPlanPtr> Plan(const History& history, const std::vector<NodeEntry>& ys, const std::vector<NodeEntry>& xs,
                                       const Gradients& heads);
  // The value, which its last user gets for itself. An empty array where there is none.
  Array Use(uint32_t number);
  Options InvokeOptions() const;
  Options ConstantOptions() const;  // The same, but not recorded.
  Array* TakeState(Array* input) const;
  void RecordDependence(Array* gradient, const NodeEntry& variable) const;

  Imperative& imperative_;
  const BackwardOptions options_;
  std::vector<MarkPtr> marks_;  // By gradient. Empty where the caller named the variables.
  std::vector<NodeEntry> xs_;   // By gradient, with create_graph.
  BackwardPlanPtr plan_;
  size_t next_ = 0;             // The next of its calls.
  std::vector<Array> values_;   // By number.
  std::vector<uint32_t> left_;  // The uses of each that are still to come.
  std::vector<Array> inputs_;   // The current call's.
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_BACKWARD_WALK_H_
