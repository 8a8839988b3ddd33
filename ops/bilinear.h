// What Convolution, Deconvolution and FullyConnected share: y = f(x, w) + bias, linear in x and in w. Their gradient is one
// operator, `_backward_` and their name, from (dy, x, w) to dx, dw and, where there is a bias, dbias. Being linear in each
// input as well, it is differentiated by the operator and itself, as often as wanted.

#ifndef OPS_BILINEAR_H_
#define OPS_BILINEAR_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/graph.h"
#include "engine/core/op.h"
#include "ops/types.h"

namespace gluond::ops {

// P: the operator's parameters, of which `no_bias` is one.
template <class P>
uint32_t NumBilinearInputs(const NodeAttrs& attrs) {
  return attrs.param<P>().no_bias ? 2 : 3;
}

template <class P>
std::vector<std::string> BilinearInputNames(const NodeAttrs& attrs) {
  std::vector<std::string> names = {"data", "weight", "bias"};
  names.resize(NumBilinearInputs<P>(attrs));
  return names;
}

// Of the backward operator. `units`: the parameter that is the size of the bias.
template <class P, int64_t P::*units>
absl::StatusOr<bool> BilinearBackwardShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
  SHAPE_ASSIGN_CHECK(out, 1, (*in)[2]);
  if (out->size() > 2) SHAPE_ASSIGN_CHECK(out, 2, Shape({attrs.param<P>().*units}));
  return AllKnown(*in) && AllKnown(*out);
}

inline Gradients BilinearGradient(const NodePtr& node, const Gradients& dy) {
  return MakeGradNode(absl::StrCat("_backward_", node->op()->name()), node, {dy[0], node->inputs[0], node->inputs[1]},
                      node->attrs.dict);
}

// Of the backward operator's inputs dy, x, w, from the gradients of dx, dw, dbias.
inline Gradients GradientOfBilinearBackward(const NodePtr& node, const Gradients& g) {
  const NodeEntry &dy = node->inputs[0], &x = node->inputs[1], &w = node->inputs[2];
  const std::string& backward = node->op()->name();
  const std::string forward = backward.substr(std::string("_backward_").size());
  const std::string name = absl::StrCat(node->name(), "_backward");
  AttrDict without_bias = node->attrs.dict;
  without_bias["no_bias"] = "True";
  std::vector<NodeEntry> through_x = {g[0], w};
  if (g.size() > 2) through_x.push_back(g[2]);
  return {MakeNode(forward, name, through_x, node->attrs.dict) + MakeNode(forward, name, {x, g[1]}, without_bias),
          MakeGradNode(backward, node, {dy, x, g[1]}, node->attrs.dict)[0],
          MakeGradNode(backward, node, {dy, g[0], w}, node->attrs.dict)[1]};
}

}  // namespace gluond::ops

#endif  // OPS_BILINEAR_H_
