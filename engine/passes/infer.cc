#include "engine/passes/infer.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/id_set.h"
#include "engine/passes/operator_error.h"
#include "engine/passes/pass_work.h"

namespace gluond {
namespace {

// Shapes and Types are the two things that are inferred, each as FixedPoint needs it.
struct Shapes {
  using Value = Shape;
  static constexpr const char* kNoun = "shape";
  static Shape Nothing() { return Shape(); }
  static bool Assign(Shape* to, const Shape& from) { return ShapeAssign(to, from); }
  static bool Known(const Shape& s) { return s.known(); }
  static std::string Text(const Shape& s) { return s.ToString(); }
  static constexpr auto kInfer = InferShape;
};

struct Types {
  using Value = DType;
  static constexpr const char* kNoun = "type";
  static DType Nothing() { return DType::kUnknown; }
  static bool Assign(DType* to, DType from) { return TypeAssign(to, from); }
  static bool Known(DType t) { return t != DType::kUnknown; }
  static std::string Text(DType t) { return std::string(Name(t)); }
  static constexpr auto kInfer = InferType;
};

// The nodes that make an entry and look at it.
struct Neighbours {
  explicit Neighbours(const IndexedGraph& graph)
      : producers(graph.num_entries()), first_user(graph.num_entries() + 1), users(graph.num_inputs()) {
    for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
      for (uint32_t entry = graph[id].first_entry; entry < graph.end_of_entries(id); ++entry) producers[entry] = id;
      for (const IndexedGraph::Input& input : graph[id].inputs) ++first_user[input.entry + 1];
    }
    for (uint32_t e = 0; e < graph.num_entries(); ++e) first_user[e + 1] += first_user[e];
    std::vector<uint32_t> next(first_user.begin(), first_user.end() - 1);
    for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
      for (const IndexedGraph::Input& input : graph[id].inputs) users[next[input.entry]++] = id;
    }
  }

  std::vector<uint32_t> producers;   // By entry: the node that makes it.
  std::vector<uint32_t> first_user;  // By entry: where in `users` the nodes begin that look at it.
  std::vector<uint32_t> users;
};

// Runs the rules of all nodes until nothing more becomes known. A node runs again only when something that it looks
// at has changed; upward and downward sweeps over those nodes alternate, so that knowledge travels any chain in one.
template <class Kind>
class FixedPoint {
 public:
  using Value = typename Kind::Value;

  FixedPoint(const IndexedGraph& graph, const Neighbours& of, std::vector<Value>* values)
      : graph_(graph),
        of_(of),
        values_(*values),
        done_(graph.num_nodes()),
        queued_(graph.num_nodes()),
        up_(graph.num_nodes()),
        down_(graph.num_nodes()) {}

  absl::Status Run() {
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) Enqueue(id, up_);
    while (!up_.empty() || !down_.empty()) {
      while (!up_.empty()) RETURN_IF_ERROR(Take(up_.First(), up_));
      while (!down_.empty()) RETURN_IF_ERROR(Take(down_.Last(), down_));
    }
    return absl::OkStatus();
  }

 private:
  void Enqueue(uint32_t id, IdSet& queue) {
    if (graph_[id].node->is_variable() || done_[id] || queued_[id]) return;
    queued_[id] = true;
    queue.Insert(id);
  }

  absl::Status Take(uint32_t id, IdSet& queue) {
    queue.Erase(id);
    queued_[id] = false;
    return Visit(id);
  }

  absl::Status Visit(uint32_t id) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const Node& node = *indexed.node;
    RETURN_IF_ERROR(work_.Add(1 + indexed.inputs.size()));
    in_.clear();
    for (const IndexedGraph::Input& input : indexed.inputs) in_.push_back(values_[input.entry]);
    const auto first_output = values_.begin() + indexed.first_entry;
    out_.assign(first_output, values_.begin() + graph_.end_of_entries(id));

    const absl::StatusOr<bool> complete = Kind::kInfer(node.attrs, &in_, &out_);
    if (!complete.ok()) return OperatorError(node, complete.status());

    bool changed = false, known = true;
    for (uint32_t i = 0; i < in_.size(); ++i) {
      RETURN_IF_ERROR(Merge(id, indexed.inputs[i].entry, in_[i], true, i, &changed, &known));
    }
    for (uint32_t i = 0; i < out_.size(); ++i) {
      RETURN_IF_ERROR(Merge(id, indexed.first_entry + i, out_[i], false, i, &changed, &known));
    }
    done_[id] = known;
    // A rule may tell more of its outputs, now that it knows more of its inputs.
    if (changed && !*complete) Enqueue(id, up_);
    return absl::OkStatus();
  }

  absl::Status Merge(uint32_t id, uint32_t entry, const Value& found, bool is_input, uint32_t i, bool* changed, bool* known) {
    Value value = values_[entry];
    if (!Kind::Assign(&value, found)) {
      return OperatorError(*graph_[id].node,
                           absl::InvalidArgumentError(absl::StrCat(is_input ? "input " : "output ", i, ": ", Kind::kNoun,
                                                                   " inconsistent, Provided = ", Kind::Text(values_[entry]),
                                                                   ", inferred ", Kind::kNoun, "=", Kind::Text(found))));
    }
    *known = *known && Kind::Known(value);
    if (value == values_[entry]) return absl::OkStatus();
    values_[entry] = value;
    *changed = true;
    const auto notify = [&](uint32_t other) {
      if (other > id) Enqueue(other, up_);
      if (other < id) Enqueue(other, down_);
    };
    notify(of_.producers[entry]);
    for (uint32_t u = of_.first_user[entry]; u < of_.first_user[entry + 1]; ++u) notify(of_.users[u]);
    return absl::OkStatus();
  }

  const IndexedGraph& graph_;
  const Neighbours& of_;
  std::vector<Value>& values_;   // By entry.
  std::vector<bool> done_;       // By node: all that it looks at is known, and it agrees.
  std::vector<bool> queued_;     // By node: in one of the queues.
  IdSet up_, down_;              // Nodes to be visited from the first to the last, and from the last to the first.
  std::vector<Value> in_, out_;  // By argument of the node that is visited.
  PassWork work_;
};

constexpr size_t kMaxUnknowns = 8;  // Unknown arguments that a message lists.

// Merges the variable's own attributes with the caller's signature of it.
absl::Status Declare(const Node& variable, const Signatures& known, Shape* shape, DType* dtype) {
  if (const auto it = variable.attrs.dict.find("__shape__"); it != variable.attrs.dict.end()) {
    std::vector<int64_t> dims;
    RETURN_IF_ERROR(Annotate(param_internal::ParseText(it->second, &dims), "__shape__"));
    ASSIGN_OR_RETURN(*shape, Shape::FromDims(dims));
  }
  if (const auto it = variable.attrs.dict.find("__dtype__"); it != variable.attrs.dict.end()) {
    ASSIGN_OR_RETURN(*dtype, ParseDType(it->second));
  }
  const auto it = known.find(variable.name());
  if (it == known.end()) return absl::OkStatus();
  if (!ShapeAssign(shape, it->second.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its attribute '__shape__' is ", shape->ToString(), ", got shape ", it->second.shape.ToString()));
  }
  if (!TypeAssign(dtype, it->second.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its attribute '__dtype__' is ", Name(*dtype), ", got type ", Name(it->second.dtype)));
  }
  return absl::OkStatus();
}

// "input 0 'data' (variable 'x') has shape [8,?]" for each thing that is unknown at `node`.
std::vector<std::string> Unknowns(const IndexedGraph::IndexedNode& indexed, const IndexedGraph& graph, const Inferred& inferred) {
  std::vector<std::string> unknowns;
  const auto look = [&](uint32_t entry, auto name) {  // Names cost more than looking.
    const Shape& shape = inferred.shapes[entry];
    if (!shape.known()) unknowns.push_back(absl::StrCat(name(), " has shape ", shape.ToString()));
    if (inferred.types[entry] == DType::kUnknown) unknowns.push_back(absl::StrCat(name(), " has no known type"));
  };
  const Node& node = *indexed.node;
  for (uint32_t i = 0; i < indexed.inputs.size() && unknowns.size() < kMaxUnknowns; ++i) {
    look(indexed.inputs[i].entry, [&] {
      const Node& from = *graph[indexed.inputs[i].node].node;
      return absl::StrCat(ArgumentText(node, true, i), from.is_variable() ? " (variable '" : " (from '", Excerpt(from.name()),
                          "')");
    });
  }
  if (!unknowns.empty()) return unknowns;
  for (uint32_t i = 0; i < node.num_outputs() && unknowns.size() < kMaxUnknowns; ++i) {
    look(indexed.first_entry + i, [&] { return ArgumentText(node, false, i); });
  }
  return unknowns;
}

// Operators first: they say more than the variable that lacks a shape.
absl::Status CheckComplete(const IndexedGraph& graph, const Inferred& inferred) {
  for (const IndexedGraph::IndexedNode& indexed : graph.nodes()) {
    const Node& node = *indexed.node;
    if (node.is_variable()) continue;
    const std::vector<std::string> unknowns = Unknowns(indexed, graph, inferred);
    if (unknowns.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat("operator ", Excerpt(node.name()), " (", node.op()->name(),
                                                      ") is not fully known: ", absl::StrJoin(unknowns, "; "),
                                                      ". Give the shapes and types of the variables that it needs."));
  }
  for (const uint32_t id : graph.variables()) {
    const uint32_t entry = graph[id].first_entry;
    if (inferred.shapes[entry].known() && inferred.types[entry] != DType::kUnknown) continue;
    return absl::FailedPreconditionError(absl::StrCat("variable '", Excerpt(graph[id].node->name()), "' has shape ",
                                                      inferred.shapes[entry].ToString(), " and type ", Name(inferred.types[entry]),
                                                      "; give both."));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Inferred> InferPartially(const IndexedGraph& graph, const Signatures& known) {
  Inferred inferred{ShapeVector(graph.num_entries()), TypeVector(graph.num_entries(), DType::kUnknown)};
  for (const uint32_t id : graph.variables()) {
    const uint32_t entry = graph[id].first_entry;
    RETURN_IF_ERROR(Annotate(Declare(*graph[id].node, known, &inferred.shapes[entry], &inferred.types[entry]),
                             absl::StrCat("variable '", Excerpt(graph[id].node->name()), "'")));
  }
  const Neighbours of(graph);
  RETURN_IF_ERROR(FixedPoint<Shapes>(graph, of, &inferred.shapes).Run());
  RETURN_IF_ERROR(FixedPoint<Types>(graph, of, &inferred.types).Run());
  return inferred;
}

absl::StatusOr<Inferred> InferShapeType(const IndexedGraph& graph, const Signatures& known) {
  ASSIGN_OR_RETURN(Inferred inferred, InferPartially(graph, known));
  RETURN_IF_ERROR(CheckComplete(graph, inferred));
  return inferred;
}

}  // namespace gluond
