// _slice_assign and _slice_assign_scalar: a tensor with a part of it replaced, as Python's x[begin:end:step] = v.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/fill.h"
#include "ops/slice_range.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct ScalarParam : Param<ScalarParam> {
  double scalar;
  Bounds begin, end, step;
  static void Fields(Schema<ScalarParam>& s) {
    s.Field("scalar", &ScalarParam::scalar).Default(0.0).Describe("The value that is put in.");
    s.Field("begin", &ScalarParam::begin).Describe("First index by axis; None: from the start.");
    s.Field("end", &ScalarParam::end).Describe("Index after the last, by axis; None: to the end.");
    s.Field("step", &ScalarParam::step).Default(Bounds()).Describe("Step by axis, not 0; None or (): 1.");
  }
};

template <class P>
absl::StatusOr<std::vector<Range>> PartOf(const NodeAttrs& attrs, const Shape& x) {
  const P& p = attrs.param<P>();
  return RangesOf(SliceParam{{}, p.begin, p.end, p.step}, x);
}

template <class P>
absl::StatusOr<bool> AssignedShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[0]);
  SHAPE_ASSIGN_CHECK(in, 0, (*out)[0]);
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const std::vector<Range> ranges, PartOf<P>(attrs, x));
  if (in->size() == 2) SHAPE_ASSIGN_CHECK(in, 1, PartShape(ranges, x));
  return AllKnown(*in);
}

// y = x[0] with `part`, of the part's shape or one element, in its place.
template <class D>
absl::Status Assign(const OpContext& ctx, const std::vector<Range>& ranges, const TBlob& x, const TBlob& part,
                    OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  if (req == kAddTo) {
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(y.bytes()));
    const TBlob assigned{space, y.shape, y.dtype, y.device};
    RETURN_IF_ERROR(Assign<D>(ctx, ranges, x, part, kWriteTo, assigned));
    return Copy<D>(ctx, assigned, req, y);
  }
  RETURN_IF_ERROR(Copy<D>(ctx, x, req, y));
  const Shape shape = PartShape(ranges, y.shape);
  if (shape.Size() == 0) return absl::OkStatus();
  StridedCopy copy = CopyOf(ranges, y.shape, shape, /*reversed=*/true);
  if (part.Size() == 1) std::fill_n(copy.x_strides, Shape::kMaxRank, 0);
  return CopyStrided<D>(ctx, copy, part, kWriteTo, y);
}

struct SliceAssign {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, PartOf<SliceParam>(attrs, y[0].shape));
    return Assign<D>(ctx, ranges, x[0], x[1], req[0], y[0]);
  }
};

struct SliceAssignScalar {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, PartOf<ScalarParam>(attrs, y[0].shape));
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(SizeOf(y[0].dtype)));
    const TBlob scalar{space, Shape({1}), y[0].dtype, y[0].device};
    RETURN_IF_ERROR(Fill<D>(ctx, attrs.param<ScalarParam>().scalar, kWriteTo, scalar));
    return Assign<D>(ctx, ranges, x[0], scalar, req[0], y[0]);
  }
};

AttrDict RangeAttrs(const NodePtr& node) {
  AttrDict dict = node->attrs.dict;
  dict.erase("scalar");
  return dict;
}
// dy without the part, where x is not used.
NodeEntry Outside(const NodePtr& node, const NodeEntry& dy) {
  return Call("_slice_assign_scalar", {dy}, RangeAttrs(node));
}

GLUOND_REGISTER_OP(_slice_assign)
    .describe("lhs with rhs in the place of lhs[begin[0]:end[0]:step[0], ...].")
    .add_alias("_crop_assign")
    .set_num_inputs(2)
    .add_argument("lhs", "NDArray", "Any shape.")
    .add_argument("rhs", "NDArray", "The shape of the part.")
    .add_arguments(SliceParam::__FIELDS__())
    .set_attr_parser(ParamParser<SliceParam>)
    .set_attr<FInferShape>("FInferShape", AssignedShape<SliceParam>)
    .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Outside(node, dy[0]), Call("slice", {dy[0]}, RangeAttrs(node))};
    })
    .compute<SliceAssign>();

GLUOND_REGISTER_OP(_slice_assign_scalar)
    .describe("data with a number in the place of data[begin[0]:end[0]:step[0], ...].")
    .add_alias("_crop_assign_scalar")
    .add_argument("data", "NDArray", "Any shape.")
    .add_arguments(ScalarParam::__FIELDS__())
    .set_attr_parser(ParamParser<ScalarParam>)
    .set_attr<FInferShape>("FInferShape", AssignedShape<ScalarParam>)
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Outside(node, dy[0])};
    })
    .compute<SliceAssignScalar>();

}  // namespace
}  // namespace gluond::ops
