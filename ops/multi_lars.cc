// multi_lars: the learning rates of layer-wise adaptive rate scaling, lr eta |w| / (rescale |g| + wd |w| + eps).

#include "ops/kernel/map.h"
#include "ops/kernel/math.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct LarsParam : Param<LarsParam> {
  double eta, eps, rescale_grad;
  static void Fields(Schema<LarsParam>& s) {
    s.Field("eta", &LarsParam::eta).Describe("Trust coefficient.");
    s.Field("eps", &LarsParam::eps).Describe("Keeps the quotient finite.");
    s.Field("rescale_grad", &LarsParam::rescale_grad).Default(1.0).Describe("Multiplies the gradients.");
  }
};

struct Lars {
  LarsParam p;
  explicit Lars(const NodeAttrs& attrs) : p(attrs.param<LarsParam>()) {}
  template <std::floating_point C>
  HOST_DEVICE C operator()(C lr, C weight_square, C grad_square, C wd) const {
    const C weight = math::Sqrt(weight_square), grad = C(p.rescale_grad) * math::Sqrt(grad_square);
    return weight > 0 && grad_square > 0 ? lr * C(p.eta) * weight / (grad + wd * weight + C(p.eps)) : lr;
  }
};

GLUOND_REGISTER_OP(multi_lars)
    .describe("lr eta |w| / (rescale_grad |g| + wd |w| + eps) for each weight; lr where a norm is 0.")
    .set_num_inputs(4)
    .add_argument("lrs", "NDArray", "The learning rate of each weight.")
    .add_argument("weights_sum_sq", "NDArray", "The sum of the squares of each weight.")
    .add_argument("grads_sum_sq", "NDArray", "The sum of the squares of each gradient.")
    .add_argument("wds", "NDArray", "The weight decay of each weight.")
    .params<LarsParam>()
    .infer(ElemwiseShape<4, 1>, SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .compute<Elemwise<Lars, 4>>();

}  // namespace
}  // namespace gluond::ops
