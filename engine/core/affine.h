// The facts by which one call is folded into the one before it, where both only predict: engine/passes/fold_affine.h.

#ifndef ENGINE_CORE_AFFINE_H_
#define ENGINE_CORE_AFFINE_H_

#include <functional>

#include "engine/core/dtype.h"
#include "engine/core/graph.h"

namespace gluond {

// A function y = scale x + shift, with one scale and one shift for each place along an axis of x.
struct Affine {
  NodeEntry x;
  int axis = 0;            // Counted from the end where it is negative.
  NodeEntry scale, shift;  // One element for each place, of the type `dtype`.
  DType dtype = DType::kFloat32;
};

// "FAffine": what output 0 of the call is outside of training, where the call writes nothing. The fact says nothing of
// the call's other outputs. `dtype` is a floating type.
using FAffine = std::function<Affine(const Node& node, DType dtype)>;
// That fact of the node's operator; null: there is none. Requires: the node is no variable.
const FAffine* AffineOf(const Node& node);

// "FAbsorbAffine": a call whose output is scale y + shift, where y is the node's, of `rank` axes and of the type `dtype`.
// affine.x is not looked at, affine.axis is from 0 to rank - 1. Null: there is no such call.
using FAbsorbAffine = std::function<NodePtr(const Node& node, const Affine& affine, int rank, DType dtype)>;

}  // namespace gluond

#endif  // ENGINE_CORE_AFFINE_H_
