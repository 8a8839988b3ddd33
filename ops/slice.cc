// slice and slice_axis: part of a tensor, by Python's rules for begin:end:step. _slice_assign and
// _slice_assign_scalar: a tensor with such a part replaced, as Python's x[begin:end:step] = v.

#include <algorithm>
#include <optional>

#include "ops/kernel/copy.h"
#include "ops/kernel/fill.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

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

struct Range {
  int64_t begin, count, step;
};

// As in Python, a bound beyond an end becomes that end.
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

// The ranges by axis of x from P's begin, end and step. Sizes of x may be unknown: their ranges are not looked at.
template <class P>
absl::StatusOr<std::vector<Range>> RangesOf(const P& p, const Shape& x) {
  if (p.begin.size() != p.end.size() || (!p.step.empty() && p.step.size() != p.begin.size())) {
    return absl::InvalidArgumentError("begin, end and step want one length");
  }
  if (static_cast<int>(p.begin.size()) > x.ndim()) {
    return absl::InvalidArgumentError(absl::StrCat("begin has ", p.begin.size(), " entries; input 0 has rank ", x.ndim()));
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

// The shape of the part, where sizes of `whole` are known.
Shape SlicePartShape(const std::vector<Range>& ranges, const Shape& whole) {
  Shape part = Shape::OfRank(whole.ndim());
  for (int axis = 0; axis < whole.ndim(); ++axis) {
    if (whole[axis] != Shape::kUnknown) part[axis] = ranges[axis].count;
  }
  return part;
}

// The copy from the part of `whole` to a dense tensor, or, if `reversed`, from there to the part.
StridedCopy SliceCopyOf(const std::vector<Range>& ranges, const Shape& whole, const Shape& part, bool reversed) {
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
  SHAPE_ASSIGN_CHECK(out, 0, SlicePartShape(ranges, x));
  return AllKnown(*in);
}

template <class P>
struct Slice {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (y[0].Size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<P>(), x[0].shape));
    return CopyStrided<D>(ctx, SliceCopyOf(ranges, x[0].shape, y[0].shape, false), x[0], req[0], y[0]);
  }
};

template <class P>
struct BackwardSlice {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs dy, Requests req, Blobs dx) {
    if (req[0] == kNullOp) return absl::OkStatus();
    if (req[0] != kAddTo) RETURN_IF_ERROR(FillZero<D>(ctx, dx[0]));
    if (dy[0].Size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<P>(), dx[0].shape));
    return CopyStrided<D>(ctx, SliceCopyOf(ranges, dx[0].shape, dy[0].shape, true), dy[0], req[0], dx[0]);
  }
};

#define SLICE(name, P, backward, text)                               \
  GLUOND_REGISTER_OP(name)                                           \
      .describe(text)                                                \
      .add_argument("data", "NDArray", "Any shape.")                 \
      .params<P>()                                                   \
      .infer(SliceShape<P>, ElemwiseType<1, 1>)                      \
      .set_attr<FGradient>("FGradient", FirstGradient<0>{#backward}) \
      .compute<Slice<P>>()
#define BACKWARD_SLICE(name, P, forward)                                                                                \
  GLUOND_REGISTER_OP(name)                                                                                              \
      .describe("The gradient of " #forward ".")                                                                        \
      .with(GradientByShape(GradientShape<SliceShape<P>>, ElemwiseType<2, 1>, "What was cut; only the shape is used.")) \
      .params<P>()                                                                                                      \
      .set_attr<FGradient>("FGradient", FirstGradient<>{#forward})                                                      \
      .compute<BackwardSlice<P>>()

SLICE(slice, SliceParam, _backward_slice, "x[begin[0]:end[0]:step[0], ...].").add_alias("crop");
SLICE(slice_axis, SliceAxisParam, _backward_slice_axis, "x[..., begin:end, ...] along one axis.");
BACKWARD_SLICE(_backward_slice, SliceParam, slice);
BACKWARD_SLICE(_backward_slice_axis, SliceAxisParam, slice_axis);

struct SliceScalarParam : Param<SliceScalarParam> {
  double scalar;
  Bounds begin, end, step;
  static void Fields(Schema<SliceScalarParam>& s) {
    s.Field("scalar", &SliceScalarParam::scalar).Default(0.0).Describe("The value that is put in.");
    s.Field("begin", &SliceScalarParam::begin).Describe("First index by axis; None: from the start.");
    s.Field("end", &SliceScalarParam::end).Describe("Index after the last, by axis; None: to the end.");
    s.Field("step", &SliceScalarParam::step).Default(Bounds()).Describe("Step by axis, not 0; None or (): 1.");
  }
};

template <class P>
absl::StatusOr<bool> AssignedShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  RETURN_IF_ERROR(Alike(in, out));
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<P>(), x));
  if (in->size() == 2) SHAPE_ASSIGN_CHECK(in, 1, SlicePartShape(ranges, x));
  return AllKnown(*in);
}

// y = x[0] with `part`, of the part's shape or one element, in its place.
template <class D>
absl::Status Assign(const OpContext& ctx, const std::vector<Range>& ranges, const TBlob& x, const TBlob& part, OpReqType req,
                    const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  if (req == kAddTo) {
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(y.bytes()));
    const TBlob assigned{space, y.shape, y.dtype, y.device};
    RETURN_IF_ERROR(Assign<D>(ctx, ranges, x, part, kWriteTo, assigned));
    return Copy<D>(ctx, assigned, req, y);
  }
  RETURN_IF_ERROR(Copy<D>(ctx, x, req, y));
  const Shape shape = SlicePartShape(ranges, y.shape);
  if (shape.Size() == 0) return absl::OkStatus();
  StridedCopy copy = SliceCopyOf(ranges, y.shape, shape, /*reversed=*/true);
  if (part.Size() == 1) std::fill_n(copy.x_strides, Shape::kMaxRank, 0);
  return CopyStrided<D>(ctx, copy, part, kWriteTo, y);
}

struct SliceAssign {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<SliceParam>(), y[0].shape));
    return Assign<D>(ctx, ranges, x[0], x[1], req[0], y[0]);
  }
};

struct SliceAssignScalar {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, RangesOf(attrs.param<SliceScalarParam>(), y[0].shape));
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(SizeOf(y[0].dtype)));
    const TBlob scalar{space, Shape({1}), y[0].dtype, y[0].device};
    RETURN_IF_ERROR(Fill<D>(ctx, attrs.param<SliceScalarParam>().scalar, kWriteTo, scalar));
    return Assign<D>(ctx, ranges, x[0], scalar, req[0], y[0]);
  }
};

AttrDict RangeAttrs(const NodePtr& node) {
  AttrDict dict = node->attrs.dict;
  dict.erase("scalar");
  return dict;
}
// dy with zeros in the part, where x is not used.
NodeEntry Outside(const NodePtr& node, const NodeEntry& dy) { return Call("_slice_assign_scalar", {dy}, RangeAttrs(node)); }

GLUOND_REGISTER_OP(_slice_assign)
    .describe("lhs with rhs in the place of lhs[begin[0]:end[0]:step[0], ...].")
    .add_alias("_crop_assign")
    .set_num_inputs(2)
    .add_argument("lhs", "NDArray", "Any shape.")
    .add_argument("rhs", "NDArray", "The shape of the part.")
    .params<SliceParam>()
    .infer(AssignedShape<SliceParam>, ElemwiseType<2, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Outside(node, dy[0]), Call("slice", {dy[0]}, RangeAttrs(node))};
                         })
    .compute<SliceAssign>();

GLUOND_REGISTER_OP(_slice_assign_scalar)
    .describe("data with a number in the place of data[begin[0]:end[0]:step[0], ...].")
    .add_alias("_crop_assign_scalar")
    .add_argument("data", "NDArray", "Any shape.")
    .params<SliceScalarParam>()
    .infer(AssignedShape<SliceScalarParam>, ElemwiseType<1, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients { return {Outside(node, dy[0])}; })
    .compute<SliceAssignScalar>();

}  // namespace
}  // namespace gluond::ops
