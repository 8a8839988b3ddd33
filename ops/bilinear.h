// Convolution, Deconvolution and FullyConnected are y = f(x, w) + bias, linear in x and in w. Their gradient is one
// operator, `_backward_` and their name, from (dy, x, w) to dx, dw and, where there is a bias, dbias. That operator is
// linear in each input as well, so that it and the forward one differentiate it, as often as wanted.

#ifndef OPS_BILINEAR_H_
#define OPS_BILINEAR_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/graph.h"
#include "ops/operator.h"

namespace gluond::ops {

// P: the operator's parameters, of which `no_bias` is one.
template <class P>
uint32_t NumBilinearInputs(const NodeAttrs& attrs) {
  return attrs.param<P>().no_bias ? 2 : 3;
}

// FInferShape of the gradient. `units`: the parameter that is the size of the bias.
template <class P, auto units>
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

// FGradient of the gradient: the gradients of its inputs dy, x and w, from those of its outputs dx, dw and dbias.
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

// The facts of the operator, and of its gradient, whose shape rule is BilinearBackwardShape.
template <class P>
void Bilinear(OpRegistration& op) {
  op.set_num_inputs(NumBilinearInputs<P>);
  op.set_attr<FListInputNames>("FListInputNames", FirstNames({"data", "weight", "bias"}, NumBilinearInputs<P>));
  op.set_attr<FResourceRequest>("FResourceRequest", TempSpace).set_attr<FGradient>("FGradient", BilinearGradient);
}
template <class P, auto units>
auto BackwardBilinear(const char* weight) {
  return [weight](OpRegistration& op) {
    op.set_num_outputs(NumBilinearInputs<P>).infer(BilinearBackwardShape<P, units>, SameFloatType);
    op.set_num_inputs(3)
        .add_argument("out_grad", "NDArray", "dL/dy.")
        .add_argument("data", "NDArray", "x.")
        .add_argument("weight", "NDArray", weight)
        .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
        .set_attr<FGradient>("FGradient", GradientOfBilinearBackward);
  };
}

}  // namespace gluond::ops

#endif  // OPS_BILINEAR_H_
