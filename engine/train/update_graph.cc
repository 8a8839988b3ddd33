#include "engine/train/update_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gluond {

NodeEntry UpdateGraph::Call(const char* op, std::vector<NodeEntry> inputs, AttrDict attrs) const {
  return MakeNode(op, name, std::move(inputs), std::move(attrs));
}

NodeEntry UpdateGraph::Cast(const NodeEntry& x, DType type) const {
  return Call("Cast", {x}, {{"dtype", std::string(Name(type))}});
}

NodeEntry UpdateGraph::WithNumber(const char* op, const NodeEntry& x, const char* number) {
  // The hidden attribute keeps two numbers of one tensor apart: equal calls would become one.
  const NodeEntry y = Call(op, {x}, {{"scalar", "0"}, {"__number__", absl::StrCat(number, places.size())}});
  SetEachStep(y, number, "scalar");
  return y;
}

NodeEntry UpdateGraph::TimesElement(const NodeEntry& x, const NodeEntry& element) const {
  const NodeEntry y = Call("broadcast_mul", {x, Cast(element, dtype)});
  return shape.ndim() == 0 ? Call("reshape_like", {y, x}) : y;
}

void UpdateGraph::SetEachStep(const NodeEntry& entry, std::string number, std::string attribute) {
  places.push_back({std::move(number), entry.node, std::move(attribute)});
}

}  // namespace gluond
