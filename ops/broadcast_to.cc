// Operators that repeat a tensor along axes where it has size 1: broadcast_to, broadcast_like, broadcast_axis. Their
// gradient is _sum_like.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/axes.h"
#include "ops/gradient.h"
#include "ops/kernel/broadcast.h"
#include "ops/kernel/strided.h"

namespace gluond::ops {
namespace {

struct BroadcastToParam : Param<BroadcastToParam> {
  std::vector<int64_t> shape;
  static void Fields(Schema<BroadcastToParam>& s) {
    s.Field("shape", &BroadcastToParam::shape).Default(std::vector<int64_t>()).Elements(int64_t{0}, int64_t{1} << 48)
        .Describe("The shape of y; 0 keeps the size of the axis.");
  }
};

struct BroadcastLikeParam : Param<BroadcastLikeParam> {
  AxisList lhs_axes, rhs_axes;
  static void Fields(Schema<BroadcastLikeParam>& s) {
    s.Field("lhs_axes", &BroadcastLikeParam::lhs_axes).Default(std::nullopt).Describe("Axes to repeat; None: all.");
    s.Field("rhs_axes", &BroadcastLikeParam::rhs_axes).Default(std::nullopt).Describe("Axes of rhs with their sizes.");
  }
};

struct BroadcastAxisParam : Param<BroadcastAxisParam> {
  std::vector<int64_t> axis, size;
  static void Fields(Schema<BroadcastAxisParam>& s) {
    s.Field("axis", &BroadcastAxisParam::axis).Default(std::vector<int64_t>()).Describe("Axes to repeat, of size 1.");
    s.Field("size", &BroadcastAxisParam::size).Default(std::vector<int64_t>()).Elements(int64_t{0}, int64_t{1} << 48)
        .Describe("Their sizes in y.");
  }
};

// y's shape is `to`, checked. Requires: x.rank_known().
absl::StatusOr<bool> BroadcastOut(const Shape& x, absl::Span<const int64_t> to, ShapeVector* out) {
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(to));
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const int in_y = axis + y.ndim() - x.ndim();
    if (in_y < 0 || (x[axis] != y[in_y] && x[axis] != 1 && x[axis] != Shape::kUnknown && y[in_y] != Shape::kUnknown)) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", x.ToString(), ", which does not broadcast to ",
                                                     y.ToString(), "; an axis must be equal or 1"));
    }
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return x.known() && y.known();
}

absl::StatusOr<bool> ToShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  std::vector<int64_t> to = attrs.param<BroadcastToParam>().shape;
  const int missing = static_cast<int>(to.size()) - x.ndim();
  for (int axis = std::max(0, missing); axis < static_cast<int>(to.size()); ++axis) {
    if (to[axis] == 0) to[axis] = x[axis - missing];
  }
  return BroadcastOut(x, to, out);
}

absl::StatusOr<bool> LikeShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const BroadcastLikeParam& p = attrs.param<BroadcastLikeParam>();
  const Shape &x = (*in)[0], &like = (*in)[1];
  if (p.lhs_axes.has_value() != p.rhs_axes.has_value() || (p.lhs_axes && p.lhs_axes->size() != p.rhs_axes->size())) {
    return absl::InvalidArgumentError("lhs_axes and rhs_axes want one length");
  }
  if (!p.lhs_axes) {
    SHAPE_ASSIGN_CHECK(out, 0, like);
    SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);
    if (!x.rank_known() || !like.rank_known()) return false;
    return BroadcastOut(x, like.dims(), out);
  }
  if (!x.rank_known() || !like.rank_known()) return false;
  Shape y = x;
  for (size_t i = 0; i < p.lhs_axes->size(); ++i) {
    ASSIGN_OR_RETURN(const int to, NormalizeAxis((*p.lhs_axes)[i], x.ndim()));
    ASSIGN_OR_RETURN(const int from, NormalizeAxis((*p.rhs_axes)[i], like.ndim()));
    y[to] = like[from];
  }
  return BroadcastOut(x, y.dims(), out);
}

absl::StatusOr<bool> AxisShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const BroadcastAxisParam& p = attrs.param<BroadcastAxisParam>();
  const Shape& x = (*in)[0];
  if (p.axis.size() != p.size.size()) return absl::InvalidArgumentError("axis and size want one length");
  if (!x.rank_known()) return false;
  Shape y = x;
  for (size_t i = 0; i < p.axis.size(); ++i) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis[i], x.ndim()));
    y[axis] = p.size[i];
  }
  return BroadcastOut(x, y.dims(), out);
}

struct Repeat {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    StridedCopy copy{.dims = y[0].shape};
    BroadcastStrides(x[0].shape, y[0].shape, copy.x_strides);
    DenseStrides(y[0].shape, copy.y_strides);
    return CopyStrided<D>(ctx, copy, x[0], req[0], y[0]);
  }
};

Gradients SumBack(const NodePtr& node, const Gradients& dy) {
  Gradients dx(node->num_inputs());
  dx[0] = SumLike(dy[0], node->inputs[0]);
  return dx;
}

#define REPEAT(name, P, shape, text)                                \
  GLUOND_REGISTER_OP(name)                                          \
      .describe(text)                                               \
      .add_arguments(P::__FIELDS__())                               \
      .set_attr_parser(ParamParser<P>)                              \
      .set_attr<FInferShape>("FInferShape", shape)                  \
      .set_attr<FInferType>("FInferType", SameType)                 \
      .set_attr<FGradient>("FGradient", SumBack)                    \
      .compute<Repeat>()

REPEAT(broadcast_to, BroadcastToParam, ToShape, "x repeated to a shape.")
    .add_argument("data", "NDArray", "Equal to the shape from the last axis on, or 1 along an axis.");
REPEAT(broadcast_axis, BroadcastAxisParam, AxisShape, "x repeated along some axes.")
    .add_alias("broadcast_axes")
    .add_argument("data", "NDArray", "Size 1 along these axes.");
REPEAT(broadcast_like, BroadcastLikeParam, LikeShape, "lhs repeated to the shape of rhs.")
    .set_num_inputs(2)
    .add_argument("lhs", "NDArray", "Equal to rhs from the last axis on, or 1 along an axis.")
    .add_argument("rhs", "NDArray", "Only its shape is used.")
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>);

}  // namespace
}  // namespace gluond::ops
