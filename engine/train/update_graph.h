// UpdateGraph: one parameter's update, as nodes that an optimizer makes.
//
//   const NodeEntry g = u.Times(u.grad, "rescale_grad");
//   u.states[0] = u.states[0] + g * g;
//   u.weight = u.weight - u.Times(g / u.Call("sqrt", {u.states[0]}), "lr");
//
// The constants of an update are attributes of its nodes. A number that changes from step to step has a name, and is an
// element of a float64 tensor that the nodes read.

#ifndef ENGINE_TRAIN_UPDATE_GRAPH_H_
#define ENGINE_TRAIN_UPDATE_GRAPH_H_

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/dtype.h"
#include "engine/core/graph.h"
#include "engine/core/shape.h"
#include "engine/nn/parameter.h"

namespace gluond {

// The numbers of several parameters' updates, and the calls of operators that update many weights.
class JointUpdate {
 public:
  // Names of variables begin with `prefix`.
  explicit JointUpdate(std::string prefix) : prefix_(std::move(prefix)) {}

  const std::string& prefix() const { return prefix_; }
  // The parameter (by index) that the next calls are for.
  void Begin(size_t parameter) { parameter_ = parameter, single_.clear(); }
  // A variable of shape [1] and that type: the parameter's number of that name.
  NodeEntry Number(const std::string& name, DType type);
  // The operator's output for one more weight of that type. All weights of a type share one call of the operator's form for
  // many weights, "_multi_<op>". `numbers` are the attributes that differ from step to step.
  NodeEntry Call(const std::string& op, DType type, std::vector<NodeEntry> inputs, AttrDict attrs,
                 std::vector<std::string> numbers);
  // To be called once, after the last parameter. INVALID_ARGUMENT: an operator refuses its call.
  absl::Status Finish();

  // A number: 8 bytes of the memory of all, of which a value of the type takes the first.
  struct Place {
    size_t parameter;
    std::string number;
    DType type;
  };
  // After Finish.
  const std::vector<Place>& places() const { return places_; }
  // A variable of the graph, which holds the numbers [first, first + shape.Size()).
  struct Variable {
    std::string name;
    size_t first;
    Shape shape;
    DType type;
  };
  const std::vector<Variable>& variables() const { return variables_; }

 private:
  struct ManyWeights {
    std::string op;
    DType type;
    AttrDict attrs;
    std::vector<std::string> numbers;
    NodePtr node;  // Filled in by Finish.
    std::vector<NodeEntry> inputs;
    std::vector<size_t> parameters;
  };
  NodeEntry AddVariable(const Shape& shape, DType type);

  const std::string prefix_;
  size_t parameter_ = 0;
  std::deque<ManyWeights> calls_;
  std::map<std::pair<std::string, DType>, NodeEntry> single_;  // The parameter's.
  std::vector<Place> places_;
  std::vector<Variable> variables_;
};

class UpdateGraph {
 public:
  // `weight32` without a node: the parameter has no such state.
  UpdateGraph(JointUpdate& joint, const Parameter& p, NodeEntry weight, NodeEntry grad, std::vector<NodeEntry> states,
              NodeEntry weight32)
      : name(p.name),
        shape(p.shape),
        dtype(p.dtype),
        weight(std::move(weight)),
        grad(std::move(grad)),
        states(std::move(states)),
        weight32(std::move(weight32)),
        joint_(joint) {}

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
  // Output 0 of a call of an update operator, some of whose attributes are numbers.
  NodeEntry CallUpdate(const std::string& op, std::vector<NodeEntry> inputs, AttrDict attrs, std::vector<std::string> numbers) {
    return joint_.Call(op, dtype, std::move(inputs), std::move(attrs), std::move(numbers));
  }
  // x, in another type.
  NodeEntry Cast(const NodeEntry& x, DType type) const;
  // A number, of shape [1], in `type`; without one, in the weight's.
  NodeEntry Number(const char* number) { return Number(number, dtype); }
  NodeEntry Number(const char* number, DType type) { return joint_.Number(number, type); }
  // x, of the weight's shape and type, times a number.
  NodeEntry Times(const NodeEntry& x, const char* number) { return WithNumber("broadcast_mul", x, number); }
  // x, of the weight's shape, times a tensor of shape [1] and any type.
  NodeEntry TimesElement(const NodeEntry& x, const NodeEntry& element) const {
    return Broadcast("broadcast_mul", x, Cast(element, dtype));
  }
  // A broadcasting operator's call with x, of the weight's shape and type, and a number.
  NodeEntry WithNumber(const char* op, const NodeEntry& x, const char* number) { return Broadcast(op, x, Number(number)); }

 private:
  NodeEntry Broadcast(const char* op, const NodeEntry& x, const NodeEntry& element) const;

  JointUpdate& joint_;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_UPDATE_GRAPH_H_
