// pick and batch_take: one element of each row, by index; and one_hot, the rows that pick would pick ones from.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/axes.h"
#include "ops/gradient.h"
#include "ops/indexed_type.h"
#include "ops/kernel/index.h"
#include "ops/kernel/rows.h"

namespace gluond::ops {
namespace {

struct PickParam : Param<PickParam> {
  std::optional<int> axis;
  bool keepdims;
  int mode;
  static void Fields(Schema<PickParam>& s) {
    s.Field("axis", &PickParam::axis).Default(-1).Describe("The axis to pick along; None: of all elements.");
    s.Field("keepdims", &PickParam::keepdims).Default(false).Describe("Keeps the axis with size 1.");
    s.Field("mode", &PickParam::mode).Enum({{"clip", kClip}, {"wrap", kWrap}}).Default("clip")
        .Describe("An index out of range: the nearest there is, or modulo the size.");
  }
};

absl::StatusOr<uint32_t> PickedAxes(const PickParam& p, int ndim) {
  if (!p.axis) return (1u << ndim) - 1;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*p.axis, ndim));
  return 1u << axis;
}

absl::StatusOr<bool> PickShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  const PickParam& p = attrs.param<PickParam>();
  ASSIGN_OR_RETURN(const uint32_t axes, PickedAxes(p, x.ndim()));
  SHAPE_ASSIGN_CHECK(out, 0, ReducedShape(x, axes, p.keepdims));
  // The index may keep the axis or not, as it likes.
  if ((*in)[1].ndim() == x.ndim() && x.ndim() > 1) {
    SHAPE_ASSIGN_CHECK(in, 1, ReducedShape(x, axes, true));
  } else {
    SHAPE_ASSIGN_CHECK(in, 1, ReducedShape(x, axes, false));
  }
  if (x.known() && (*out)[0].Size() > 0 && x.Size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", x.ToString(), ": no element to pick"));
  }
  return AllKnown(*in);
}

absl::StatusOr<RowGeometry> GeometryOf(const NodeAttrs& attrs, const Shape& x) {
  const PickParam& p = attrs.param<PickParam>();
  if (!p.axis) return RowGeometry{1, x.Size(), 1};
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*p.axis, x.ndim()));
  return RowsOf(x, axis);
}

template <class C>
struct PickElement {
  RowGeometry rows;
  IndexMode mode;
  In<C> x;
  In<int64_t> index;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t row) const {
    y.Set(row, x[rows.begin(row) + ToRange(index[row], rows.n, mode) * rows.inner]);
  }
};

// Every element of dx: dy where it was picked, else 0.
template <class C>
struct UnpickElement {
  RowGeometry rows;
  IndexMode mode;
  In<C> dy;
  In<int64_t> index;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t k = i / rows.inner % rows.n, row = i / rows.inner / rows.n * rows.inner + i % rows.inner;
    dx.Set(i, ToRange(index[row], rows.n, mode) == k ? dy[row] : C(0));
  }
};

template <class D>
absl::Status PickRows(const OpContext& ctx, const RowGeometry& rows, IndexMode mode, absl::Span<const TBlob> x,
                      OpReqType req, const TBlob& y) {
  if (req == kNullOp) return absl::OkStatus();
  return DispatchCompute(y.dtype, [&](auto c) {
    using C = decltype(c);
    const PickElement<C> pick{rows, mode, In<C>(x[0]), In<int64_t>(x[1]), Out<C>(y, req)};
    return ForEach<D>(ctx, y.Size(), pick);
  });
}

struct Pick {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    ASSIGN_OR_RETURN(const RowGeometry rows, GeometryOf(attrs, x[0].shape));
    return PickRows<D>(ctx, rows, static_cast<IndexMode>(attrs.param<PickParam>().mode), x, req[0], y[0]);
  }
};

struct BatchTake {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    return PickRows<D>(ctx, RowsOf(x[0].shape, 1), kClip, x, req[0], y[0]);
  }
};

// Inputs: dy, the index, and x, of which only the shape is used.
struct BackwardPick {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> dx) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const RowGeometry rows, GeometryOf(attrs, dx[0].shape));
    const IndexMode mode = static_cast<IndexMode>(attrs.param<PickParam>().mode);
    return DispatchCompute(dx[0].dtype, [&](auto c) {
      using C = decltype(c);
      const UnpickElement<C> unpick{rows, mode, In<C>(x[0]), In<int64_t>(x[1]), Out<C>(dx[0], req[0])};
      return ForEach<D>(ctx, dx[0].Size(), unpick);
    });
  }
};

GLUOND_REGISTER_OP(pick)
    .describe("The element of each row, along an axis, that the index tells.")
    .add_alias("choose_element_0index")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "Any shape.")
    .add_argument("index", "NDArray", "The shape of data without the axis, or with 1 in its place; any type.")
    .add_arguments(PickParam::__FIELDS__())
    .set_attr_parser(ParamParser<PickParam>)
    .set_attr<FInferShape>("FInferShape", PickShape)
    .set_attr<FInferType>("FInferType", IndexedType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("_backward_pick", {dy[0], node->inputs[1], node->inputs[0]}, node->attrs.dict), {}};
    })
    .compute<Pick>();

GLUOND_REGISTER_OP(_backward_pick)
    .describe("The gradient of pick's data.")
    .set_num_inputs(3)
    .add_argument("dy", "NDArray", "dL/dy.")
    .add_argument("index", "NDArray", "As given to pick.")
    .add_argument("like", "NDArray", "data; only its shape is used.")
    .add_arguments(PickParam::__FIELDS__())
    .set_attr_parser(ParamParser<PickParam>)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      SHAPE_ASSIGN_CHECK(out, 0, (*in)[2]);
      SHAPE_ASSIGN_CHECK(in, 2, (*out)[0]);
      ShapeVector forward = {(*in)[2], (*in)[1]}, dy = {(*in)[0]};
      RETURN_IF_ERROR(PickShape(attrs, &forward, &dy).status());
      (*in)[0] = dy[0];
      return AllKnown(*in);
    })
    .set_attr<FInferType>("FInferType", IndexedGradientType)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<2>)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("pick", {dy[0], node->inputs[1]}, node->attrs.dict), {}, {}};
    })
    .compute<BackwardPick>();

GLUOND_REGISTER_OP(batch_take)
    .describe("y[i] = a[i, indices[i]]; an index out of range takes the nearest element.")
    .set_num_inputs(2)
    .add_argument("a", "NDArray", "A matrix.")
    .add_argument("indices", "NDArray", "One for each row; any type.")
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(2));
      const Shape rows = {(*in)[0][0]};
      SHAPE_ASSIGN_CHECK(in, 1, rows);
      SHAPE_ASSIGN_CHECK(out, 0, rows);
      if ((*in)[0][1] == 0 && rows[0] > 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("input 0 has shape ", (*in)[0].ToString(), ": no element to take"));
      }
      return AllKnown(*in);
    })
    .set_attr<FInferType>("FInferType", IndexedType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("_backward_pick", {dy[0], node->inputs[1], node->inputs[0]}), {}};
    })
    .compute<BatchTake>();

struct OneHotParam : Param<OneHotParam> {
  int64_t depth;
  double on_value, off_value;
  DType dtype;
  static void Fields(Schema<OneHotParam>& s) {
    s.Field("depth", &OneHotParam::depth).Range(0, int64_t{1} << 48).Describe("The size of the new, last axis.");
    s.Field("on_value", &OneHotParam::on_value).Default(1.0).Describe("The value at the index.");
    s.Field("off_value", &OneHotParam::off_value).Default(0.0).Describe("The value elsewhere.");
    s.Field("dtype", &OneHotParam::dtype).Default(DType::kFloat32).Describe("The type of y.");
  }
};

template <class C>
struct OneHotElement {
  int64_t depth;
  C on, off;
  In<int64_t> index;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, index[i / depth] == i % depth ? on : off); }
};

struct OneHot {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const OneHotParam& p = attrs.param<OneHotParam>();
    return DispatchCompute(y[0].dtype, [&](auto c) {
      using C = decltype(c);
      return ForEach<D>(ctx, y[0].Size(), OneHotElement<C>{p.depth, Convert<C>(p.on_value), Convert<C>(p.off_value),
                                                           In<int64_t>(x[0]), Out<C>(y[0], req[0])});
    });
  }
};

GLUOND_REGISTER_OP(one_hot)
    .describe("y[..., k] is on_value where k is the index, else off_value; an index out of range is nowhere.")
    .add_argument("indices", "NDArray", "Any shape and type; fractions are cut off.")
    .add_arguments(OneHotParam::__FIELDS__())
    .set_attr_parser(ParamParser<OneHotParam>)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      const Shape& x = (*in)[0];
      if (!x.rank_known()) return false;
      std::vector<int64_t> dims(x.begin(), x.end());
      dims.push_back(attrs.param<OneHotParam>().depth);
      ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(dims));
      SHAPE_ASSIGN_CHECK(out, 0, y);
      return x.known();
    })
    .set_attr<FInferType>("FInferType",
                          [](const NodeAttrs& attrs, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
      TYPE_ASSIGN_CHECK(out, 0, attrs.param<OneHotParam>().dtype);
      return AllKnown(*in);
    })
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<OneHot>();

}  // namespace
}  // namespace gluond::ops
