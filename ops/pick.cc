// pick and batch_take: one element of each row, by index; and one_hot, the rows that pick would pick ones from. MXNet
// keeps fill_element_0index and _onehot_encode for old programs: a matrix with one element of each row set.

#include "ops/axes.h"
#include "ops/elements.h"
#include "ops/kernel/index.h"
#include "ops/kernel/labels.h"
#include "ops/kernel/rows.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct PickParam : Param<PickParam> {
  std::optional<int> axis;
  bool keepdims;
  int mode;
  static void Fields(Schema<PickParam>& s) {
    s.Field("axis", &PickParam::axis).Default(-1).Describe("The axis to pick along; None: of all elements.");
    s.Field("keepdims", &PickParam::keepdims).Default(false).Describe("Keeps the axis with size 1.");
    s.Field("mode", &PickParam::mode)
        .Enum({{"clip", kClip}, {"wrap", kWrap}, {"raise", kRaise}})
        .Default("clip")
        .Describe(
            "An index out of range: the nearest there is; modulo the size; or, which MXNet does not have, an error on "
            "a CPU and NaN on a GPU.");
  }
};

absl::StatusOr<bool> PickShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  const PickParam& p = attrs.param<PickParam>();
  ASSIGN_OR_RETURN(const uint32_t axes, AxisOrAll(p.axis, x.ndim()));
  SHAPE_ASSIGN_CHECK(out, 0, ReducedShape(x, axes, p.keepdims));
  // The index may have the axis or not.
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

// The element of each row of `n` that is picked, or Labels::kNoClass.
struct PickedIndex {
  IndexMode mode;
  In<int64_t> index;
  Labels label;  // The same numbers, for kRaise: a conversion to integers would make 0 of NaN.

  PickedIndex(IndexMode mode, const TBlob& index, int64_t n) : mode(mode), index(index), label{In<double>(index), n} {}
  HOST_DEVICE int64_t operator[](int64_t row) const {
    return mode == kRaise ? label[row] : ToRange(index[row], label.classes, mode);
  }
};

// INVALID_ARGUMENT: see CheckLabels.
template <class D>
absl::Status CheckPicked(const PickedIndex& index, int64_t rows) {
  return index.mode == kRaise ? CheckLabels<D>(index.label, rows) : absl::OkStatus();
}

template <class C>
struct PickElement {
  RowGeometry rows;
  PickedIndex index;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t row) const {
    const int64_t k = index[row];
    y.Set(row, k < 0 ? std::numeric_limits<C>::quiet_NaN() : x[rows.begin(row) + k * rows.inner]);
  }
};

// An element of dx is dy where it was picked, else 0.
template <class C>
struct UnpickElement {
  RowGeometry rows;
  PickedIndex index;
  In<C> dy;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t k = i / rows.inner % rows.n, row = i / rows.inner / rows.n * rows.inner + i % rows.inner;
    const int64_t picked = index[row];
    dx.Set(i, picked < 0 ? std::numeric_limits<C>::quiet_NaN() : picked == k ? dy[row] : C(0));
  }
};

// The same where the elements of a row lie side by side.
template <class C>
struct UnpickRow {
  int64_t n;
  PickedIndex index;
  In<C> dy;
  Out<C> dx;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t row) const {
    const int64_t picked = index[row];
    const C others = picked < 0 ? std::numeric_limits<C>::quiet_NaN() : C(0), value = dy[row];
    g.ForEach(n, [&](int64_t k) { dx.Set(row * n + k, k == picked ? value : others); });
  }
};

template <class D>
absl::Status PickRows(const OpContext& ctx, const RowGeometry& rows, IndexMode mode, Blobs x, OpReqType req, const TBlob& y) {
  if (req == kNullOp) return absl::OkStatus();
  const PickedIndex index(mode, x[1], rows.n);
  RETURN_IF_ERROR(CheckPicked<D>(index, y.Size()));
  return DispatchCompute(y.dtype, [&]<class C>(C) {
    return ForEach<D>(ctx, y.Size(), PickElement<C>{rows, index, In<C>(x[0]), Out<C>(y, req)});
  });
}

struct Pick {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(attrs.param<PickParam>().axis, x[0].shape));
    return PickRows<D>(ctx, rows, static_cast<IndexMode>(attrs.param<PickParam>().mode), x, req[0], y[0]);
  }
};

struct BatchTake {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    return PickRows<D>(ctx, RowsOf(x[0].shape, 1), kClip, x, req[0], y[0]);
  }
};

// Inputs: dy, the index, and x, whose values are not used.
struct BackwardPick {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs dx) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const RowGeometry rows, RowsAlong(attrs.param<PickParam>().axis, dx[0].shape));
    const PickedIndex index(static_cast<IndexMode>(attrs.param<PickParam>().mode), x[1], rows.n);
    RETURN_IF_ERROR(CheckPicked<D>(index, x[1].Size()));
    return DispatchCompute(dx[0].dtype, [&]<class C>(C) {
      if (rows.inner == 1) {
        const UnpickRow<C> f{rows.n, index, In<C>(x[0]), Out<C>(dx[0], req[0])};
        return ForEachGroup<D>(ctx, x[0].Size(), rows.n, f);
      }
      return ForEach<D>(ctx, dx[0].Size(), UnpickElement<C>{rows, index, In<C>(x[0]), Out<C>(dx[0], req[0])});
    });
  }
};

GLUOND_REGISTER_OP(pick)
    .describe("The element of each row, along an axis, that the index tells.")
    .add_alias("choose_element_0index")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "Any shape.")
    .add_argument("index", "NDArray", "The shape of data without the axis, or with 1 in its place; any type.")
    .params<PickParam>()
    .infer(PickShape, IndexedType)
    .set_attr<FGradient>("FGradient", FirstGradient<1, 0>{"_backward_pick"})
    .compute<Pick>();

GLUOND_REGISTER_OP(_backward_pick)
    .describe("The gradient of pick's data.")
    .with(GradientByIndex(GradientShape<PickShape>, "index", "As given to pick.", "data; only its shape is used."))
    .params<PickParam>()
    .set_attr<FGradient>("FGradient", FirstGradient<1>{"pick"})
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
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const OneHotParam& p = attrs.param<OneHotParam>();
    return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) {
      return OneHotElement<C>{p.depth, Convert<C>(p.on_value), Convert<C>(p.off_value), In<int64_t>(x[0]), out};
    });
  }
};

GLUOND_REGISTER_OP(one_hot)
    .describe("y[..., k] is on_value where k is the index, else off_value; an index out of range is nowhere.")
    .add_argument("indices", "NDArray", "Any shape and type; fractions are cut off.")
    .params<OneHotParam>()
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
    .set_attr<FInferType>("FInferType", TypeOfParam<OneHotParam>)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<OneHot>();

// An index out of range sets nothing.
template <class C>
struct FillElementOfRow {
  int64_t columns;
  In<C> x, value;
  In<int64_t> index;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / columns;
    y.Set(i, index[row] == i % columns ? value[row] : x[i]);
  }
};

struct FillElements {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) {
      return FillElementOfRow<C>{y[0].shape[1], In<C>(x[0]), In<C>(x[1]), In<int64_t>(x[2]), out};
    });
  }
};
struct OneHotRows {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) {
      return OneHotElement<C>{y[0].shape[1], C(1), C(0), In<int64_t>(x[0]), out};
    });
  }
};

// One matrix in and out, and vectors with an element for each of its rows.
template <size_t matrix>
absl::StatusOr<bool> ByRows(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(in, matrix, Shape::OfRank(2));
  SHAPE_ASSIGN_CHECK(out, 0, (*in)[matrix]);
  SHAPE_ASSIGN_CHECK(in, matrix, (*out)[0]);
  for (size_t i = 0; i < in->size(); ++i) {
    if (i != matrix) SHAPE_ASSIGN_CHECK(in, i, Shape({(*in)[matrix][0]}));
  }
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(fill_element_0index)
    .describe("lhs with element rhs[i] of row i replaced by mhs[i].")
    .set_num_inputs(3)
    .add_argument("lhs", "NDArray", "A matrix.")
    .add_argument("mhs", "NDArray", "The new element of each row.")
    .add_argument("rhs", "NDArray", "Its index; any type.")
    .infer(ByRows<0>, TypeOfTwo<0, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           const NodeEntry& index = node->inputs[2];
                           return {Call("fill_element_0index", {dy[0], Call("zeros_like", {node->inputs[1]}), index}),
                                   Call("pick", {dy[0], index}),
                                   {}};
                         })
    .compute<FillElements>();

GLUOND_REGISTER_OP(_onehot_encode)
    .describe("Rows of the shape of rhs with 1 at index lhs[i], else 0.")
    .set_num_inputs(2)
    .add_argument("lhs", "NDArray", "The index in each row; any type.")
    .add_argument("rhs", "NDArray", "A matrix; only its shape and type are used.")
    .infer(ByRows<1>, TypeOfInput<1>)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<OneHotRows>();

}  // namespace
}  // namespace gluond::ops
