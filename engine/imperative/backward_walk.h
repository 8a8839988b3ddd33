// A backward pass: the gradient of the recorded calls is a graph of the engine's operators. The graph's nodes are
// invoked one by one, each with the values that the tape kept for the node.

#ifndef ENGINE_IMPERATIVE_BACKWARD_WALK_H_
#define ENGINE_IMPERATIVE_BACKWARD_WALK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/imperative/imperative.h"
#include "engine/passes/gradient.h"

namespace gluond {

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
  // The values of entries, each released after its last use.
  class Values {
   public:
    void AddUses(const std::vector<NodeEntry>& entries) {
      for (const NodeEntry& entry : entries) ++uses_[Key(entry)];
    }
    bool IsUsed(const Node* node, uint32_t index) const { return uses_.contains({node, index}); }
    void Put(const NodeEntry& entry, Array array) {
      if (uses_.contains(Key(entry))) arrays_[Key(entry)] = std::move(array);
    }
    // An empty array where there is no value.
    Array Use(const NodeEntry& entry) {
      const auto it = arrays_.find(Key(entry));
      if (it == arrays_.end()) return {};
      if (--uses_[Key(entry)] > 0) return it->second;
      Array last = std::move(it->second);
      arrays_.erase(it);
      return last;
    }

   private:
    static std::pair<const Node*, uint32_t> Key(const NodeEntry& entry) { return {entry.node.get(), entry.index}; }

    absl::flat_hash_map<std::pair<const Node*, uint32_t>, int> uses_;
    absl::flat_hash_map<std::pair<const Node*, uint32_t>, Array> arrays_;
  };

  absl::StatusOr<Gradients> BuildGradients(const std::vector<NodePtr>& history, const std::vector<NodeEntry>& ys,
                                           const std::vector<NodeEntry>& xs, const Gradients& heads);
  Options InvokeOptions() const;
  Options ConstantOptions() const;  // The same, but not recorded.
  Array* TakeState(Array* input) const;
  void RecordDependence(Array* gradient, const NodeEntry& variable) const;

  Imperative& imperative_;
  const BackwardOptions options_;
  std::vector<MarkPtr> marks_;  // By gradient. Empty where the caller named the variables.
  std::vector<NodeEntry> xs_;   // By gradient, with create_graph.
  Gradients gradients_;
  absl::flat_hash_map<const Node*, bool> training_;  // Modes of the gradient's own nodes; empty: all have the options'.
  std::vector<NodePtr> order_;                       // The gradient's own nodes, each after those that it reads.
  size_t next_ = 0;                                  // The next of order_.
  Values values_;
  std::vector<Array> inputs_;  // The current node's.
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_BACKWARD_WALK_H_
