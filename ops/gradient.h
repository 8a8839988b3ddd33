// The words that gradients are written in: calls of operators on entries of the graph.

#ifndef OPS_GRADIENT_H_
#define OPS_GRADIENT_H_

#include <string>
#include <utility>
#include <vector>

#include "engine/core/elementwise.h"
#include "engine/core/graph.h"
#include "engine/core/param.h"

namespace gluond::ops {

// The first output of a call of `op`. Requires: the operator and its attributes are right.
inline NodeEntry Call(const char* op, std::vector<NodeEntry> inputs, AttrDict dict = {}) {
  return MakeNode(op, op, std::move(inputs), std::move(dict));
}
inline NodeEntry CallScalar(const char* op, const NodeEntry& x, double scalar) {
  return Call(op, {x}, {{"scalar", param_internal::FormatValue(scalar)}});
}

// dy summed to the shape of `like`: the gradient of an input that was broadcast.
inline NodeEntry SumLike(const NodeEntry& dy, const NodeEntry& like) { return Call("_sum_like", {dy, like}); }

// x where `condition` is not 0, else 0.
inline NodeEntry Where(const NodeEntry& condition, const NodeEntry& x) {
  return Call("where", {condition, x, Call("zeros_like", {x})});
}
// A norm to divide by, of numbers that are 0 where it is: their quotients are 0 there, too.
inline NodeEntry OneIfZero(const NodeEntry& norm) { return Call("where", {norm, norm, Call("ones_like", {norm})}); }
inline NodeEntry PartOfNorm(const NodeEntry& x, const NodeEntry& norm) { return x / OneIfZero(norm); }

// FIgnoreInputs: only the shape and type of input i are used.
template <uint32_t i>
std::vector<uint32_t> Ignore(const NodeAttrs&) {
  return {i};
}

// FGradient of an operator whose first input alone has one: a call of `op`, with the node's attributes, on dy and on
// the inputs of those numbers.
template <size_t... inputs>
struct FirstGradient {
  const char* op;
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    Gradients dx(node->num_inputs());
    dx[0] = Call(op, {dy[0], node->inputs[inputs]...}, node->attrs.dict);
    return dx;
  }
};

// A call y = f(x, ...) as its gradient is written: its inputs, its output, and dL/dy.
struct UnaryTerms {
  const NodePtr& node;
  const NodeEntry &x, y, dy;
};
// The same of y = f(a, b).
struct BinaryTerms {
  const NodeEntry &a, &b, y, dy;
};

// FGradient of y = f(x), from an expression of dL/dx.
struct Chain {
  NodeEntry (*dx)(const UnaryTerms&);
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    return {dx({node, node->inputs[0], Output(node), dy[0]})};
  }
};

// FGradient of y = f(a, b), from expressions of dL/da and dL/db.
struct Chain2 {
  NodeEntry (*da)(const BinaryTerms&);
  NodeEntry (*db)(const BinaryTerms&);
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    const BinaryTerms terms = {node->inputs[0], node->inputs[1], Output(node), dy[0]};
    return {da(terms), db(terms)};
  }
};

}  // namespace gluond::ops

#endif  // OPS_GRADIENT_H_
