// slice_like: the beginning of a tensor, as much of it as another tensor has.

#include "ops/kernel/fill.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct SliceLikeParam : Param<SliceLikeParam> {
  std::vector<int64_t> axes;
  static void Fields(Schema<SliceLikeParam>& s) {
    s.Field("axes", &SliceLikeParam::axes).Default(std::vector<int64_t>()).Describe("The axes to cut; (): all.");
  }
};

// The shape of y: x's shape, with the sizes of `like` along the axes.
absl::StatusOr<Shape> CutShape(const SliceLikeParam& p, const Shape& x, const Shape& like) {
  std::vector<int64_t> axes = p.axes;
  if (axes.empty()) {
    if (x.ndim() != like.ndim()) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", x.ToString(), " and input 1 ", like.ToString(),
                                                     "; want one rank, or the parameter 'axes'"));
    }
    for (int axis = 0; axis < x.ndim(); ++axis) axes.push_back(axis);
  }
  Shape y = x;
  for (int64_t listed : axes) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(listed, x.ndim()));
    ASSIGN_OR_RETURN(const int in_like, NormalizeAxis(listed, like.ndim()));
    if (like[in_like] > x[axis] && x[axis] != Shape::kUnknown) {
      return absl::InvalidArgumentError(absl::StrCat("input 1 has shape ", like.ToString(), "; along axis ", listed,
                                                     " it is larger than input 0, ", x.ToString()));
    }
    y[axis] = like[in_like];
  }
  return y;
}

absl::StatusOr<bool> SliceLikeShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape &x = (*in)[0], &like = (*in)[1];
  if (!x.rank_known() || !like.rank_known()) return false;
  ASSIGN_OR_RETURN(const Shape y, CutShape(attrs.param<SliceLikeParam>(), x, like));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return AllKnown(*in);
}

struct SliceLike {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    StridedCopy copy{.dims = y[0].shape};
    DenseStrides(x[0].shape, copy.x_strides);
    DenseStrides(y[0].shape, copy.y_strides);
    return CopyStrided<D>(ctx, copy, x[0], req[0], y[0]);
  }
};

// dy at the beginning, zeros behind it.
struct BackwardSliceLike {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs dy, Requests req, Blobs dx) {
    RETURN_IF_ERROR(Fill<D>(ctx, 0, req[0], dx[0]));
    StridedCopy copy{.dims = dy[0].shape};
    DenseStrides(dy[0].shape, copy.x_strides);
    DenseStrides(dx[0].shape, copy.y_strides);
    return CopyStrided<D>(ctx, copy, dy[0], req[0], dx[0]);
  }
};

// The second input may have any type, and need not have one.
GLUOND_REGISTER_OP(slice_like)
    .describe("The first elements along each axis, as many as shape_like has.")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "Any shape.")
    .add_argument("shape_like", "NDArray", "Only its shape is used.")
    .params<SliceLikeParam>()
    .infer(SliceLikeShape, FirstType)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_backward_slice_like", {dy[0], node->inputs[0]}), {}};
                         })
    .compute<SliceLike>();

GLUOND_REGISTER_OP(_backward_slice_like)
    .describe("The gradient of slice_like: dy, and zeros where nothing was taken.")
    .with(GradientByShape(ShapeOfInput<1>, ElemwiseType<2, 1>, "data; only its shape is used."))
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("slice_like", {dy[0], node->inputs[0]}), {}};
                         })
    .compute<BackwardSliceLike>();

}  // namespace
}  // namespace gluond::ops
