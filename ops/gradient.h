// What gradients are written in: calls of operators on entries of the graph.

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

// FIgnoreInputs: only the shape of input i is used.
template <uint32_t i>
std::vector<uint32_t> Ignore(const NodeAttrs&) { return {i}; }

// FInferShape of dx = f(dy, like): `like` is x, and dy has the shape of y by the forward operator's rule.
template <absl::StatusOr<bool> (*forward)(const NodeAttrs&, ShapeVector*, ShapeVector*)>
absl::StatusOr<bool> GradientShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
  SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);
  ShapeVector x = {(*in)[1]}, y = {(*in)[0]};
  RETURN_IF_ERROR(forward(attrs, &x, &y).status());
  (*in)[0] = y[0];
  return AllKnown(*in);
}

// FGradient of y = f(x), from an expression of dL/dx in x, y and dy = dL/dy.
using UnaryGradient = NodeEntry (*)(const NodeEntry& x, const NodeEntry& y, const NodeEntry& dy);
struct Chain {
  UnaryGradient dx;
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    return {dx(node->inputs[0], Output(node), dy[0])};
  }
};

// FGradient of z = f(x, y), from expressions of dL/dx and dL/dy in x, y, z and dz.
using BinaryGradient = NodeEntry (*)(const NodeEntry& x, const NodeEntry& y, const NodeEntry& z, const NodeEntry& dz);
struct Chain2 {
  BinaryGradient dx, dy;
  Gradients operator()(const NodePtr& node, const Gradients& dz) const {
    const NodeEntry &x = node->inputs[0], &y = node->inputs[1], z = Output(node);
    return {dx(x, y, z, dz[0]), dy(x, y, z, dz[0])};
  }
};

}  // namespace gluond::ops

#endif  // OPS_GRADIENT_H_
