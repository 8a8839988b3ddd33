// Inference: the engine of InferShapeType, once for shapes and once for types. Private to infer.cc.

#ifndef ENGINE_PASSES_INFERENCE_H_
#define ENGINE_PASSES_INFERENCE_H_

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/operator_error.h"

namespace gluond {

// What shapes and types differ in.
struct Shapes {
  using Value = Shape;
  using Rule = FInferShape;
  static constexpr const char* kKey = "FInferShape";
  static constexpr const char* kNoun = "shape";
  static Shape Nothing() { return Shape(); }
  static bool Assign(Shape* to, const Shape& from) { return ShapeAssign(to, from); }
  static bool Known(const Shape& s) { return s.known(); }
  static std::string Text(const Shape& s) { return s.ToString(); }
  static absl::StatusOr<bool> Default(const NodeAttrs&, ShapeVector*, ShapeVector*) { return false; }
};

struct Types {
  using Value = DType;
  using Rule = FInferType;
  static constexpr const char* kKey = "FInferType";
  static constexpr const char* kNoun = "type";
  static DType Nothing() { return DType::kUnknown; }
  static bool Assign(DType* to, DType from) { return TypeAssign(to, from); }
  static bool Known(DType t) { return t != DType::kUnknown; }
  static std::string Text(DType t) { return std::string(Name(t)); }
  static absl::StatusOr<bool> Default(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
    return SameType(attrs, in, out);
  }
};

// Runs the rules of all nodes until nothing more becomes known. A node runs again only when something that it looks
// at has changed; upward and downward sweeps over those nodes alternate, so that knowledge travels any chain in one.
template <class Kind>
class Inference {
 public:
  using Value = typename Kind::Value;

  Inference(const IndexedGraph& graph, std::vector<Value>* values)
      : graph_(graph), values_(*values), producers_(graph.num_entries()), first_user_(graph.num_entries() + 1),
        done_(graph.num_nodes()), queued_(graph.num_nodes()) {
    for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
      const uint32_t num_outputs = graph[id].node->num_outputs();
      for (uint32_t i = 0; i < num_outputs; ++i) producers_[graph[id].first_entry + i] = id;
    }
    IndexUsers();
  }

  absl::Status Run() {
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) Enqueue(id, up_);
    while (!up_.empty() || !down_.empty()) {
      RETURN_IF_ERROR(Sweep(up_));
      RETURN_IF_ERROR(Sweep(down_));
    }
    return absl::OkStatus();
  }

 private:
  // Calls see(entry) for each entry that node `id` looks at, but its own outputs.
  template <class See>
  void ForEachSeen(uint32_t id, See see) const {
    for (const IndexedGraph::Input& input : graph_[id].inputs) see(input.entry);
    if (!TakesFromForward(id)) return;
    const IndexedGraph::IndexedNode& forward = graph_[graph_[id].control_deps[0]];
    for (const IndexedGraph::Input& input : forward.inputs) see(input.entry);
    for (uint32_t i = 0; i < forward.node->num_outputs(); ++i) see(forward.first_entry + i);
  }

  void IndexUsers() {
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      ForEachSeen(id, [this](uint32_t entry) { ++first_user_[entry + 1]; });
    }
    for (uint32_t e = 0; e < graph_.num_entries(); ++e) first_user_[e + 1] += first_user_[e];
    users_.resize(first_user_.back());
    std::vector<uint32_t> next(first_user_.begin(), first_user_.end() - 1);
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      ForEachSeen(id, [&](uint32_t entry) { users_[next[entry]++] = id; });
    }
  }

  bool TakesFromForward(uint32_t id) const {
    const Op* op = graph_[id].node->op();
    return op != nullptr && op->GetAttr<TIsBackward>("TIsBackward", false) && !op->HasAttr(Kind::kKey) &&
           !graph_[id].control_deps.empty();
  }

  template <class Queue>
  void Enqueue(uint32_t id, Queue& queue) {
    if (graph_[id].node->is_variable() || done_[id] || queued_[id]) return;
    queued_[id] = true;
    queue.push(id);
  }

  template <class Queue>
  absl::Status Sweep(Queue& queue) {
    while (!queue.empty()) {
      const uint32_t id = queue.top();
      queue.pop();
      queued_[id] = false;
      RETURN_IF_ERROR(Visit(id));
    }
    return absl::OkStatus();
  }

  absl::Status Visit(uint32_t id) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const Node& node = *indexed.node;
    in_.clear();
    for (const IndexedGraph::Input& input : indexed.inputs) in_.push_back(values_[input.entry]);
    const auto first_output = values_.begin() + indexed.first_entry;
    out_.assign(first_output, first_output + node.num_outputs());

    const absl::StatusOr<bool> complete = Apply(id);
    if (!complete.ok()) return OperatorError(node, complete.status());

    bool changed = false, known = true;
    for (uint32_t i = 0; i < in_.size(); ++i) {
      RETURN_IF_ERROR(Merge(id, indexed.inputs[i].entry, in_[i], true, i, &changed, &known));
    }
    for (uint32_t i = 0; i < out_.size(); ++i) {
      RETURN_IF_ERROR(Merge(id, indexed.first_entry + i, out_[i], false, i, &changed, &known));
    }
    done_[id] = known;
    // What a rule learned of its inputs may tell it more about its outputs.
    if (changed && !*complete) Enqueue(id, up_);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Apply(uint32_t id) {
    const Node& node = *graph_[id].node;
    if (TakesFromForward(id)) return TakeFromForward(id);
    if (const auto* rule = node.op()->GetAttr<typename Kind::Rule>(Kind::kKey)) return (*rule)(node.attrs, &in_, &out_);
    return Kind::Default(node.attrs, &in_, &out_);
  }

  // Output i is the gradient of the forward node's input i. The first inputs are the gradients of its visible outputs,
  // which tells what they are once all else is known (they may be in another order where an operator says so).
  absl::StatusOr<bool> TakeFromForward(uint32_t id) {
    const IndexedGraph::IndexedNode& forward = graph_[graph_[id].control_deps[0]];
    bool known = true;
    for (uint32_t i = 0; i < forward.inputs.size(); ++i) {
      const Value& value = values_[forward.inputs[i].entry];
      known = known && Kind::Known(value);
      if (i < out_.size() && !Kind::Assign(&out_[i], value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("output ", i, " has ", Kind::kNoun, " ", Kind::Text(out_[i]), ", expected that of ",
                         ArgumentText(*forward.node, true, i), " of its forward node '", Excerpt(forward.node->name()),
                         "', ", Kind::Text(value)));
      }
    }
    if (forward.node->is_variable()) return known;
    const uint32_t visible = forward.node->op()->num_visible_outputs(forward.node->attrs);
    for (uint32_t i = 0; i < visible; ++i) known = known && Kind::Known(values_[forward.first_entry + i]);
    for (uint32_t i = 0; known && i < std::min<size_t>(visible, in_.size()); ++i) {
      if (in_[i] == Kind::Nothing()) in_[i] = values_[forward.first_entry + i];
    }
    return known;
  }

  absl::Status Merge(uint32_t id, uint32_t entry, const Value& found, bool is_input, uint32_t i, bool* changed,
                     bool* known) {
    Value value = values_[entry];
    if (!Kind::Assign(&value, found)) {
      return OperatorError(*graph_[id].node,
                           absl::InvalidArgumentError(absl::StrCat(
                               is_input ? "input " : "output ", i, ": ", Kind::kNoun, " inconsistent, Provided = ",
                               Kind::Text(values_[entry]), ", inferred ", Kind::kNoun, "=", Kind::Text(found))));
    }
    *known = *known && Kind::Known(value);
    if (value == values_[entry]) return absl::OkStatus();
    values_[entry] = value;
    *changed = true;
    const auto notify = [&](uint32_t other) {
      if (other > id) Enqueue(other, up_);
      if (other < id) Enqueue(other, down_);
    };
    notify(producers_[entry]);
    for (uint32_t u = first_user_[entry]; u < first_user_[entry + 1]; ++u) notify(users_[u]);
    return absl::OkStatus();
  }

  const IndexedGraph& graph_;
  std::vector<Value>& values_;        // By entry.
  std::vector<uint32_t> producers_;   // By entry: the node that makes it.
  std::vector<uint32_t> first_user_;  // By entry: where in users_ the nodes begin that look at it.
  std::vector<uint32_t> users_;
  std::vector<bool> done_;            // By node: all that it looks at is known, and it agrees.
  std::vector<bool> queued_;          // By node: in one of the queues.
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> up_;
  std::priority_queue<uint32_t> down_;
  std::vector<Value> in_, out_;       // Of the node that is visited.
};

}  // namespace gluond

#endif  // ENGINE_PASSES_INFERENCE_H_
