// Activation: an elementwise non-linearity chosen by act_type. All derivatives follow from y alone, so that x need not
// be kept for the gradient.

#include "ops/channel_blocks.h"
#include "ops/kernel/map.h"
#include "ops/kernel/math.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

enum ActivationActType { kRelu, kSigmoid, kTanh, kSoftrelu, kSoftsign };

struct ActivationParam : Param<ActivationParam> {
  int act_type;
  static void Fields(Schema<ActivationParam>& s) {
    s.Field("act_type", &ActivationParam::act_type)
        .Enum({{"relu", kRelu}, {"sigmoid", kSigmoid}, {"tanh", kTanh}, {"softrelu", kSoftrelu}, {"softsign", kSoftsign}})
        .Describe("relu max(x, 0); sigmoid 1 / (1 + e^-x); tanh; softrelu log(1 + e^x); softsign x / (1 + |x|).");
  }
};

// Each function has f(x), and its derivative as a function of y = f(x).
struct ReluOf {
  template <class C>
  HOST_DEVICE static C F(C x) {
    return x > 0 || x != x ? x : C(0);
  }
  template <class C>
  HOST_DEVICE static C Slope(C y) {
    return y > 0 ? C(1) : C(0);
  }
};
struct SigmoidOf {
  template <class C>
  HOST_DEVICE static C F(C x) {
    return math::Sigmoid(x);
  }
  template <class C>
  HOST_DEVICE static C Slope(C y) {
    return y * (1 - y);
  }
};
struct TanhOf {
  template <class C>
  HOST_DEVICE static C F(C x) {
    return math::Tanh(x);
  }
  template <class C>
  HOST_DEVICE static C Slope(C y) {
    return 1 - y * y;
  }
};
struct SoftreluOf {
  template <class C>
  HOST_DEVICE static C F(C x) {
    return math::Softplus(x);
  }
  template <class C>
  HOST_DEVICE static C Slope(C y) {
    return 1 - math::Exp(-y);
  }
};
struct SoftsignOf {
  template <class C>
  HOST_DEVICE static C F(C x) {
    return x / (1 + math::Abs(x));
  }
  template <class C>
  HOST_DEVICE static C Slope(C y) {
    return (1 - math::Abs(y)) * (1 - math::Abs(y));
  }
};

template <class A>
struct ActivationValue {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const {
    return A::F(x);
  }
};
template <class A>
struct ActivationDerivative {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C dy, C y) const {
    return dy * A::Slope(y);
  }
};

template <template <class> class F, int inputs>
struct ByType {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    switch (attrs.param<ActivationParam>().act_type) {
      case kRelu: return Map<D, inputs>(ctx, F<ReluOf>(), in.data(), req[0], out[0]);
      case kSigmoid: return Map<D, inputs>(ctx, F<SigmoidOf>(), in.data(), req[0], out[0]);
      case kTanh: return Map<D, inputs>(ctx, F<TanhOf>(), in.data(), req[0], out[0]);
      case kSoftrelu: return Map<D, inputs>(ctx, F<SoftreluOf>(), in.data(), req[0], out[0]);
      default: return Map<D, inputs>(ctx, F<SoftsignOf>(), in.data(), req[0], out[0]);
    }
  }
};

// The gradients of dy f'(y) by dy and by y.
Gradients ActivationGradientOfBackward(const NodePtr& node, const Gradients& g) {
  const NodeEntry &dy = node->inputs[0], &y = node->inputs[1];
  const NodeEntry by_dy = MakeNode("_backward_Activation", absl::StrCat(node->name(), "_backward"), {g[0], y}, node->attrs.dict);
  switch (node->param<ActivationParam>().act_type) {
    case kRelu: return {by_dy, {}};
    case kSigmoid: return {by_dy, g[0] * dy * (1 - y * 2)};
    case kTanh: return {by_dy, g[0] * dy * (y * -2)};
    case kSoftrelu: return {by_dy, g[0] * dy * Call("exp", {-y})};
    default: return {by_dy, g[0] * dy * (Call("sign", {y}) * -2 + y * 2)};
  }
}

GLUOND_REGISTER_OP(Activation)
    .describe("y = f(x), elementwise, with the f that act_type names.")
    .add_argument("data", "NDArray", "Any shape.")
    .params<ActivationParam>()
    .infer(ElemwiseShape<1, 1>, SameFloatType)
    .with(Elementwise<1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", ElemwiseGradUseOut{"_backward_Activation"})
    .compute<ByType<ActivationValue, 1>>();

GLUOND_REGISTER_OP(_backward_Activation)
    .describe("dx = dy f'(x), from y = f(x).")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("output", "NDArray", "y.")
    .params<ActivationParam>()
    .set_num_inputs(2)
    .infer(ElemwiseShape<2, 1>, SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)
    .set_attr<FGradient>("FGradient", ActivationGradientOfBackward)
    .compute<ByType<ActivationDerivative, 2>>();

}  // namespace
}  // namespace gluond::ops
