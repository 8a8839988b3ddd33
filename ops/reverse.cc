// reverse: the elements of some axes in the opposite order.

#include "ops/axes.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct ReverseParam : Param<ReverseParam> {
  std::vector<int64_t> axis;
  static void Fields(Schema<ReverseParam>& s) { s.Field("axis", &ReverseParam::axis).Describe("The axes to reverse."); }
};

absl::StatusOr<uint32_t> ReversedAxes(const NodeAttrs& attrs, int ndim) {
  const std::vector<int64_t>& axes = attrs.param<ReverseParam>().axis;
  if (axes.empty()) return 0u;
  return ReducedAxes(ndim, axes, false);
}

absl::StatusOr<bool> CheckAxes(const NodeAttrs& attrs, ShapeVector* in, ShapeVector*) {
  if ((*in)[0].rank_known()) RETURN_IF_ERROR(ReversedAxes(attrs, (*in)[0].ndim()).status());
  return AllKnown(*in);
}

struct Reverse {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    ASSIGN_OR_RETURN(const uint32_t axes, ReversedAxes(attrs, x[0].shape.ndim()));
    StridedCopy copy{.dims = y[0].shape};
    DenseStrides(x[0].shape, copy.x_strides);
    DenseStrides(y[0].shape, copy.y_strides);
    for (int axis = 0; axis < x[0].shape.ndim(); ++axis) {
      if ((axes >> axis & 1) == 0) continue;
      copy.x_offset += (x[0].shape[axis] - 1) * copy.x_strides[axis];
      copy.x_strides[axis] = -copy.x_strides[axis];
    }
    return CopyStrided<D>(ctx, copy, x[0], req[0], y[0]);
  }
};

GLUOND_REGISTER_OP(reverse)
    .describe("The elements of some axes in the opposite order.")
    .add_alias("flip")
    .add_argument("data", "NDArray", "Any shape.")
    .params<ReverseParam>()
    .infer(LikeFirst<CheckAxes>(), ElemwiseType<1, 1>)
    .set_attr<FGradient>("FGradient", FirstGradient<>{"reverse"})
    .compute<Reverse>();

}  // namespace
}  // namespace gluond::ops
