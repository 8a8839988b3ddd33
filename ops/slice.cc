// slice and slice_axis: part of a tensor, by Python's rules for begin:end:step.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/strided.h"

namespace gluond::ops {
namespace {

using Bound = std::optional<int64_t>;
using Bounds = std::vector<Bound>;

struct SliceParam : Param<SliceParam> {
  Bounds begin, end, step;
  static void Fields(Schema<SliceParam>& s) {
    s.Field("begin", &SliceParam::begin).Describe("First index by axis; None: from the start. Negative: from the end.");
    s.Field("end", &SliceParam::end).Describe("Index after the last, by axis; None: to the end.");
    s.Field("step", &SliceParam::step).Default(Bounds()).Describe("Step by axis, not 0; None or (): 1.");
  }
};

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

struct Range {
  int64_t begin, count, step;
};

// As Python: what is beyond an end is cut off.
Range RangeOf(int64_t n, Bound begin, Bound end, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto place = [=](int64_t at) { return std::clamp(at < 0 ? std::max(at, -n - 1) + n : at, low, high); };
  const int64_t first = begin ? place(*begin) : step > 0 ? low : high;
  const int64_t last = end ? place(*end) : step > 0 ? high : low;
  const int64_t span = step > 0 ? last - first : first - last;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const int64_t count = span <= 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / stride) + 1;
  return {first, count, count <= 1 ? 1 : step};
}

// By axis of x, of which sizes may be unknown: their ranges are not looked at.
absl::StatusOr<std::vector<Range>> RangesOf(const SliceParam& p, const Shape& x) {
  if (p.begin.size() != p.end.size() || (!p.step.empty() && p.step.size() != p.begin.size())) {
    return absl::InvalidArgumentError("begin, end and step want one length");
  }
  if (static_cast<int>(p.begin.size()) > x.ndim()) {
    return absl::InvalidArgumentError(
        absl::StrCat("begin has ", p.begin.size(), " entries; input 0 has rank ", x.ndim()));
  }
  std::vector<Range> ranges;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const bool cut = axis < static_cast<int>(p.begin.size());
    const int64_t step = cut && !p.step.empty() ? p.step[axis].value_or(1) : 1;
    if (step == 0) return absl::InvalidArgumentError(absl::StrCat("step of axis ", axis, " is 0"));
    ranges.push_back(RangeOf(x[axis], cut ? p.begin[axis] : Bound(), cut ? p.end[axis] : Bound(), step));
  }
  return ranges;
}
absl::StatusOr<std::vector<Range>> RangesOf(const SliceAxisParam& p, const Shape& x) {
  ASSIGN_OR_RETURN(const int cut, NormalizeAxis(p.axis, x.ndim()));
  std::vector<Range> ranges;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    ranges.push_back(RangeOf(x[axis], axis == cut ? Bound(p.begin) : Bound(), axis == cut ? p.end : Bound(), 1));
  }
  return ranges;
}

// The copy from the part of `whole` to a dense tensor; reversed: the other way.
template <class P>
absl::StatusOr<StridedCopy> CopyOf(const NodeAttrs& attrs, const Shape& whole, const Shape& part, bool reversed) {
  ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<P>(), whole));
  StridedCopy copy{.dims = part};
  Strides dense;
  DenseStrides(whole, dense);
  int64_t& offset = reversed ? copy.y_offset : copy.x_offset;
  int64_t* const strides = reversed ? copy.y_strides : copy.x_strides;
  for (int axis = 0; axis < whole.ndim(); ++axis) {
    offset += ranges[axis].begin * dense[axis];
    strides[axis] = ranges[axis].step * dense[axis];
  }
  DenseStrides(part, reversed ? copy.x_strides : copy.y_strides);
  return copy;
}

template <class P>
absl::StatusOr<bool> SliceShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<P>(), x));
  Shape y = Shape::OfRank(x.ndim());
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (x[axis] != Shape::kUnknown) y[axis] = ranges[axis].count;
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return AllKnown(*in);
}

template <class P>
struct Slice {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (y[0].Size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const StridedCopy copy, CopyOf<P>(attrs, x[0].shape, y[0].shape, false));
    return CopyStrided<D>(ctx, copy, x[0], req[0], y[0]);
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
    ASSIGN_OR_RETURN(const StridedCopy copy, CopyOf<P>(attrs, dx[0].shape, dy[0].shape, true));
    return CopyStrided<D>(ctx, copy, dy[0], req[0], dx[0]);
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
      .set_attr<FInferShape>("FInferShape", [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> { \
        SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);                                         \
        SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);                                         \
        ShapeVector x = {(*in)[1]}, y = {(*in)[0]};                                   \
        RETURN_IF_ERROR(SliceShape<P>(attrs, &x, &y).status());                       \
        (*in)[0] = y[0];                                                              \
        return AllKnown(*in);                                                         \
      })                                                                              \
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
