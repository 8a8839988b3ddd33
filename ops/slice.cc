// slice and slice_axis: part of a tensor, by Python's rules for begin:end:step.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/strided.h"
#include "ops/slice_range.h"

namespace gluond::ops {
namespace {

struct SliceAxisParam : Param<SliceAxisParam> {
  int axis;
  int64_t begin;
  Bound end;
  static void Fields(Schema<SliceAxisParam>& s) {
    s.Field("axis", &SliceAxisParam::axis).Describe("The axis to cut.");
    s.Field("begin", &SliceAxisParam::begin).Describe("First index. Negative: from the end.");
    s.Field("end", &SliceAxisParam::end).Describe("Index after the last; None: to the end.");
  }
};

absl::StatusOr<std::vector<Range>> RangesOf(const SliceAxisParam& p, const Shape& x) {
  ASSIGN_OR_RETURN(const int cut, NormalizeAxis(p.axis, x.ndim()));
  std::vector<Range> ranges;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    ranges.push_back(RangeOf(x[axis], axis == cut ? Bound(p.begin) : Bound(), axis == cut ? p.end : Bound(), 1));
  }
  return ranges;
}

template <class P>
absl::StatusOr<bool> SliceShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<P>(), x));
  SHAPE_ASSIGN_CHECK(out, 0, PartShape(ranges, x));
  return AllKnown(*in);
}

template <class P>
struct Slice {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (y[0].Size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<P>(), x[0].shape));
    return CopyStrided<D>(ctx, CopyOf(ranges, x[0].shape, y[0].shape, false), x[0], req[0], y[0]);
  }
};

template <class P>
struct BackwardSlice {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> dy,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> dx) {
    if (req[0] == kNullOp) return absl::OkStatus();
    if (req[0] != kAddTo) RETURN_IF_ERROR(FillZero<D>(ctx, dx[0]));
    if (dy[0].Size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<P>(), dx[0].shape));
    return CopyStrided<D>(ctx, CopyOf(ranges, dx[0].shape, dy[0].shape, true), dy[0], req[0], dx[0]);
  }
};

#define SLICE(name, P, backward, text)                                                \
  GLUOND_REGISTER_OP(name)                                                            \
      .describe(text)                                                                 \
      .add_argument("data", "NDArray", "Any shape.")                                  \
      .add_arguments(P::__FIELDS__())                                                 \
      .set_attr_parser(ParamParser<P>)                                                \
      .set_attr<FInferShape>("FInferShape", SliceShape<P>)                            \
      .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)                         \
      .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients { \
        return {Call(#backward, {dy[0], node->inputs[0]}, node->attrs.dict)};         \
      })                                                                              \
      .compute<Slice<P>>()
#define BACKWARD_SLICE(name, P, forward)                                              \
  GLUOND_REGISTER_OP(name)                                                            \
      .describe("The gradient of " #forward ".")                                      \
      .set_num_inputs(2)                                                              \
      .add_argument("dy", "NDArray", "dL/dy.")                                        \
      .add_argument("like", "NDArray", "What was cut; only the shape is used.")       \
      .add_arguments(P::__FIELDS__())                                                 \
      .set_attr_parser(ParamParser<P>)                                                \
      .set_attr<FInferShape>("FInferShape", GradientShape<SliceShape<P>>)             \
      .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)                         \
      .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>) \
      .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients { \
        return {Call(#forward, {dy[0]}, node->attrs.dict), {}};                       \
      })                                                                              \
      .compute<BackwardSlice<P>>()

SLICE(slice, SliceParam, _backward_slice, "x[begin[0]:end[0]:step[0], ...].").add_alias("crop");
SLICE(slice_axis, SliceAxisParam, _backward_slice_axis, "x[..., begin:end, ...] along one axis.");
BACKWARD_SLICE(_backward_slice, SliceParam, slice);
BACKWARD_SLICE(_backward_slice_axis, SliceAxisParam, slice_axis);

}  // namespace
}  // namespace gluond::ops
