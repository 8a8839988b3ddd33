// The gradient of the gradient of y = gamma z + beta, z = (x - mean) r along rows, r = 1 / sqrt(variance + eps), in
// operators, so that it can be differentiated again. With P(u) = u - mean(u) - z mean(u z) and d = gamma dy, the
// gradient is dx = r P(d), dgamma = sum dy z, dbeta = sum dy. Where a, b and c are the gradients of these three,
//
//   the gradient of dy is     gamma r P(a) + b z + c
//   the gradient of gamma is  sum dy r P(a)
//   the gradient of x is      r P(b dy - r (a mean(d z) + d mean(a z))) - r^2 z mean(a P(d))
//
// since P is symmetric, the gradient of z by x is r P, and the gradient of r by x is -r^2 z / n.

#ifndef OPS_NORM_GRADIENT_H_
#define OPS_NORM_GRADIENT_H_

#include <functional>
#include <vector>

#include "ops/operator.h"

namespace gluond::ops {

// FInferShape of (dy, x, gamma) -> (dx, dgamma, dbeta).
inline absl::StatusOr<bool> BackwardNormShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, 0, (*in)[1]);
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
  for (int i = 1; i < 3; ++i) SHAPE_ASSIGN_CHECK(out, i, (*in)[2]);
  return AllKnown(*in) && AllKnown(*out);
}

// The hidden outputs are shown where output_mean_var asks for them.
template <class P>
uint32_t VisibleOutputs(const NodeAttrs& attrs) {
  return attrs.param<P>().output_mean_var ? 3 : 1;
}

// FSetInputVarAttrOnCompose: gamma is ones, beta zeros.
inline void InitGammaBeta(const NodeAttrs&, NodeAttrs* variable, int index) {
  if (index > 0) variable->dict.emplace("__init__", index == 1 ? "[\"one\", {}]" : "[\"zero\", {}]");
}

// The facts of an operator on data, gamma and beta, and of its gradient. `backward`: the gradient's name.
inline auto NormFacts(const char* backward, const char* gamma) {
  return [=](OpRegistration& op) {
    op.set_num_inputs(3)
        .add_argument("gamma", "NDArray", gamma)
        .add_argument("beta", "NDArray", gamma)
        .set_attr<FSetInputVarAttrOnCompose>("FSetInputVarAttrOnCompose", InitGammaBeta)
        .set_attr<FGradient>("FGradient", [backward](const NodePtr& node, const Gradients& dy) {
          return OutputsOf(Call(backward, {dy[0], node->inputs[0], node->inputs[1]}, node->attrs.dict));
        });
  };
}
template <class P>
void MeanAndStd(OpRegistration& op) {
  op.set_num_outputs(3).set_attr<FListOutputNames>("FListOutputNames", Names({"output", "mean", "std"}));
  op.set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", VisibleOutputs<P>);
}
inline void BackwardNormFacts(OpRegistration& op) {
  op.set_num_inputs(3)
      .set_num_outputs(3)
      .add_argument("out_grad", "NDArray", "dL/dy.")
      .add_argument("data", "NDArray", "x.")
      .add_argument("gamma", "NDArray", "gamma.")
      .infer(BackwardNormShape, SameFloatType)
      .set_attr<FResourceRequest>("FResourceRequest", TempSpace);
}

// A NormLayout brings entries of a graph into the form in which gamma broadcasts against the last axis, and back.
struct NormLayout {
  AttrDict mean_axes;  // The attributes of `mean`.
  std::function<NodeEntry(const NodeEntry&)> arrange, restore;
};

// FGradient of the call `backward` (dy, x, gamma -> dx, dgamma, dbeta). It computes with 16-bit tensors in float32.
inline Gradients NormSecondGradient(const NodePtr& backward, const Gradients& heads, double eps, const NormLayout& layout) {
  const auto mean = [&](const NodeEntry& e) { return Call("mean", {e}, layout.mean_axes); };
  const auto mul = [](const NodeEntry& x, const NodeEntry& y) { return Call("broadcast_mul", {x, y}); };
  const auto wide = [](const NodeEntry& e) { return Call("_widen", {e}); };
  const auto arranged = [&](const NodeEntry& e) { return layout.arrange(wide(e)); };
  const auto like = [&](const NodeEntry& e, size_t input) { return Call("_cast_like", {e, backward->inputs[input]}); };

  const NodeEntry dy = arranged(backward->inputs[0]), x = arranged(backward->inputs[1]);
  const NodeEntry gamma = wide(backward->inputs[2]);
  const NodeEntry a = arranged(heads[0]), b = wide(heads[1]), c = wide(heads[2]);

  const NodeEntry centered = Call("broadcast_sub", {x, mean(x)});
  const NodeEntry r = Call("rsqrt", {mean(Call("square", {centered})) + eps});
  const NodeEntry z = mul(centered, r), d = mul(dy, gamma);
  const auto p = [&](const NodeEntry& u) { return Call("broadcast_sub", {u, mean(u)}) - mul(z, mean(u * z)); };
  const NodeEntry rpa = mul(p(a), r);
  const NodeEntry of_dy = Call("broadcast_add", {mul(rpa, gamma) + mul(z, b), c});
  const NodeEntry u = mul(dy, b) - mul(mul(a, mean(d * z)) + mul(d, mean(a * z)), r);
  const NodeEntry of_x = mul(p(u), r) - mul(z, Call("square", {r}) * mean(a * p(d)));
  return {like(layout.restore(of_dy), 0), like(layout.restore(of_x), 1), like(SumLike(dy * rpa, gamma), 2)};
}

}  // namespace gluond::ops

#endif  // OPS_NORM_GRADIENT_H_
