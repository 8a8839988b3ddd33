// _contrib_div_sqrt_dim: x / sqrt(size of the last axis), the scale of attention.

#include <cmath>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/map.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct Times {
  double factor;
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const { return x * static_cast<C>(factor); }
};

struct DivSqrtDim {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    const Shape& shape = x[0].shape;
    const double n = shape.ndim() == 0 ? 1 : static_cast<double>(shape.back());
    return Map<D, 1>(ctx, Times{1 / std::sqrt(n)}, x.data(), req[0], y[0]);
  }
};

GLUOND_REGISTER_OP(_contrib_div_sqrt_dim)
    .describe("x / sqrt(n), with n the size of the last axis.")
    .add_argument("data", "NDArray", "Any shape.")
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", [](const NodePtr&, const Gradients& dy) -> Gradients {
      return {Call("_contrib_div_sqrt_dim", {dy[0]})};
    })
    .compute<DivSqrtDim>();

}  // namespace
}  // namespace gluond::ops
