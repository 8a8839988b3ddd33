// The words in which an operator says that it is a scale and a shift for each channel (engine/core/affine.h). In further
// words an operator says that its weight and bias take the scale and the shift of the call behind it.

#ifndef OPS_AFFINE_H_
#define OPS_AFFINE_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/affine.h"
#include "ops/operator.h"

namespace gluond::ops {

inline NodeEntry CastTo(const NodeEntry& x, DType dtype) { return Call("Cast", {x}, {{"dtype", std::string(Name(dtype))}}); }

// The call of `node`'s operator that computes scale y + shift for each of the output's channels, which are the weight's
// first axis. The weight becomes scale w, the bias scale b + shift. P: the operator's parameters, of which `no_bias` is one;
// its inputs are the data, the weight and the bias.
template <class P>
NodePtr WithAffine(const Node& node, const Affine& affine, int weight_rank, DType dtype) {
  const std::string column = absl::StrCat("(-1", absl::StrJoin(std::vector<std::string>(weight_rank, ""), ", 1"), ")");
  const NodeEntry weight =
      Call("broadcast_mul", {CastTo(node.inputs[1], affine.dtype), Call("Reshape", {affine.scale}, {{"shape", column}})});
  NodeEntry bias = affine.shift;
  if (!node.param<P>().no_bias) bias = CastTo(node.inputs[2], affine.dtype) * affine.scale + bias;
  AttrDict dict = node.attrs.dict;
  dict["no_bias"] = "False";
  return MakeNode(node.op()->name(), node.name(), {node.inputs[0], CastTo(weight, dtype), CastTo(bias, dtype)}, dict).node;
}

}  // namespace gluond::ops

#endif  // OPS_AFFINE_H_
