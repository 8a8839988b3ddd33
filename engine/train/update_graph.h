// UpdateGraph: one parameter's update, as nodes that an optimizer makes.
//
//   const NodeEntry g = u.Times(u.grad, "rescale_grad");
//   u.states[0] = u.states[0] + g * g;
//   u.weight = u.weight - u.Times(g / u.Call("sqrt", {u.states[0]}), "lr");
//
// The constants of an update are attributes of its nodes. A number that changes from step to step has a name: the
// trainer sets it in the nodes before it runs them.

#ifndef ENGINE_TRAIN_UPDATE_GRAPH_H_
#define ENGINE_TRAIN_UPDATE_GRAPH_H_

#include <string>
#include <utility>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/graph.h"
#include "engine/core/shape.h"
#include "engine/nn/parameter.h"

namespace gluond {

// An attribute of a node that has the value of a step's number.
struct NumberPlace {
  std::string number;
  NodePtr node;
  std::string attribute;
};

class UpdateGraph {
 public:
  // `weight32` without a node: the parameter has no such state.
  UpdateGraph(const Parameter& p, NodeEntry weight, NodeEntry grad, std::vector<NodeEntry> states, NodeEntry weight32)
      : name(p.name),
        shape(p.shape),
        dtype(p.dtype),
        weight(std::move(weight)),
        grad(std::move(grad)),
        states(std::move(states)),
        weight32(std::move(weight32)) {}

  const std::string name;  // The parameter's.
  const Shape shape;
  DType dtype;  // Weight and gradient have this type.

  // Variables at first. The update leaves new values here; a state that an operator writes stays a variable.
  NodeEntry weight;
  NodeEntry grad;
  std::vector<NodeEntry> states;  // In the order of Optimizer::states().
  NodeEntry weight32;             // The parameter of 16 bits in float32.

  // Output 0 of a call of an operator.
  NodeEntry Call(const char* op, std::vector<NodeEntry> inputs, AttrDict attrs = {}) const;
  // x, in another type.
  NodeEntry Cast(const NodeEntry& x, DType type) const;
  // A call of an operator of one tensor and one number, a step's: "_mul_scalar" with x times that number.
  NodeEntry WithNumber(const char* op, const NodeEntry& x, const char* number);
  NodeEntry Times(const NodeEntry& x, const char* number) { return WithNumber("_mul_scalar", x, number); }
  // x, of the weight's shape, times a tensor of shape [1] and any type.
  NodeEntry TimesElement(const NodeEntry& x, const NodeEntry& element) const;
  // From now on, a step's number sets that attribute of the entry's node.
  void SetEachStep(const NodeEntry& entry, std::string number, std::string attribute);

  std::vector<NumberPlace> places;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_UPDATE_GRAPH_H_
