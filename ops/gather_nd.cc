// gather_nd, scatter_nd and _scatter_set_nd: slices of a tensor by indices along its first axes. `indices` has shape
// (axes, ...): each of its columns names one slice.

#include "ops/kernel/fill.h"
#include "ops/kernel/gather.h"
#include "ops/kernel/math.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

// A tensor as rows: its first axes count them, and the other axes are inside of them.
struct NdGeometry {
  int axes;
  int64_t columns, rows, inner;
};
NdGeometry GatherNdGeometryOf(const Shape& whole, const Shape& indices) {
  const int axes = static_cast<int>(indices[0]);
  return {axes, indices.Size(1, indices.ndim()), whole.Size(0, axes), whole.Size(axes, whole.ndim())};
}

// The shape of the slices: the axes of the indices but the first, then whole's axes that are not indexed.
absl::StatusOr<Shape> GatherNdPartShape(const Shape& whole, const Shape& indices) {
  if (indices.ndim() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("indices have shape ", indices.ToString(), "; want rank 2 or more, with the indexed axes first"));
  }
  if (indices[0] > whole.ndim()) {
    return absl::InvalidArgumentError(
        absl::StrCat("indices have shape ", indices.ToString(), ", for ", indices[0], " axes; they index ", whole.ToString()));
  }
  std::vector<int64_t> dims(indices.begin() + 1, indices.end());
  dims.insert(dims.end(), whole.begin() + indices[0], whole.end());
  return Shape::FromDims(dims);
}

struct RowOfColumn {
  int axes;
  int64_t columns;
  int64_t dim[Shape::kMaxRank];
  In<int64_t> index;
  int64_t* row;  // -1: there is none.
  HOST_DEVICE void operator()(int64_t column) const {
    int64_t at = 0;
    bool inside = true;
    for (int axis = 0; axis < axes; ++axis) {
      const int64_t i = index[axis * columns + column];
      inside = inside && i >= -dim[axis] && i < dim[axis];
      at = at * dim[axis] + (i < 0 ? i + dim[axis] : i);
    }
    row[column] = inside ? at : -1;
  }
};

// The row that each column names, in temporary space. OUT_OF_RANGE: there is none. On a GPU this waits for the stream.
template <class D>
absl::StatusOr<TBlob> RowsOfColumns(const OpContext& ctx, const Shape& whole, const TBlob& indices) {
  const NdGeometry g = GatherNdGeometryOf(whole, indices.shape);
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(static_cast<size_t>(g.columns) * sizeof(int64_t)));
  RowOfColumn find{g.axes, g.columns, {}, In<int64_t>(indices), static_cast<int64_t*>(space)};
  std::copy_n(whole.begin(), g.axes, find.dim);
  RETURN_IF_ERROR(ForEach<D>(ctx, g.columns, find));
  const TBlob rows{space, Shape({g.columns}), DType::kInt64, indices.device};
  ASSIGN_OR_RETURN(const int64_t bad, FirstOutside<D>(ctx, rows, 0, g.rows));
  if (bad < 0) return rows;
  return absl::OutOfRangeError(absl::StrCat("column ", bad, " of the indices, ", indices.shape.ToString(), ", names no part of ",
                                            whole.ToString(), "; want each index from -size to size - 1 of its axis"));
}

GatherGeometry AsGather(const NdGeometry& g) { return {1, g.rows, g.inner, g.columns}; }

struct GatherNd {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const TBlob rows, RowsOfColumns<D>(ctx, x[0].shape, x[1]));
    return Gather<D>(ctx, AsGather(GatherNdGeometryOf(x[0].shape, x[1].shape)), kClip, x[0], rows, req[0], y[0]);
  }
};

// Inputs: dy, the indices, and data, whose values are not used.
struct BackwardGatherNd {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs dx) {
    if (req[0] == kNullOp) return absl::OkStatus();
    ASSIGN_OR_RETURN(const TBlob rows, RowsOfColumns<D>(ctx, dx[0].shape, x[1]));
    return ScatterAdd<D>(ctx, AsGather(GatherNdGeometryOf(dx[0].shape, x[1].shape)), kClip, x[0], rows, req[0], dx[0]);
  }
};

// last[row] = 1 + the last column that names the row, so that the result does not depend on the order of threads.
struct MarkLast {
  const int64_t* row;
  unsigned long long* last;
  HOST_DEVICE void operator()(int64_t column) const {
    math::RaiseTo(last + row[column], static_cast<unsigned long long>(column) + 1);
  }
};

// y = base, or zeros without one, with the slices of x in the rows that are named.
template <class C>
struct SetRow {
  int64_t inner;
  const unsigned long long* last;
  bool has_base;
  In<C> base, x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const unsigned long long mark = last[i / inner];
    const C otherwise = has_base ? base[i] : C(0);
    y.Set(i, mark == 0 ? otherwise : x[static_cast<int64_t>(mark - 1) * inner + i % inner]);
  }
};

template <class D>
absl::Status SetRows(const OpContext& ctx, const TBlob* base, const TBlob& x, const TBlob& indices, OpReqType req, const TBlob& y) {
  if (req == kNullOp) return absl::OkStatus();
  ASSIGN_OR_RETURN(const TBlob rows, RowsOfColumns<D>(ctx, y.shape, indices));
  const NdGeometry g = GatherNdGeometryOf(y.shape, indices.shape);
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(static_cast<size_t>(g.rows) * sizeof(int64_t)));
  RETURN_IF_ERROR(FillZero<D>(ctx, TBlob{space, Shape({g.rows}), DType::kInt64, y.device}));
  const auto last = static_cast<unsigned long long*>(space);
  // A grain of all columns: one thread on a CPU, which goes by their order.
  RETURN_IF_ERROR(ForEach<D>(ctx, g.columns, MarkLast{static_cast<const int64_t*>(rows.data), last}, g.columns));
  return DispatchCompute(y.dtype, [&]<class C>(C) {
    return ForEach<D>(ctx, y.Size(),
                      SetRow<C>{g.inner, last, base != nullptr, In<C>(base != nullptr ? *base : x), In<C>(x), Out<C>(y, req)});
  });
}

struct ScatterNd {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    return SetRows<D>(ctx, nullptr, x[0], x[1], req[0], y[0]);
  }
};
struct ScatterSetNd {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    return SetRows<D>(ctx, &x[0], x[1], x[2], req[0], y[0]);
  }
};

struct ShapeParam : Param<ShapeParam> {
  std::vector<int64_t> shape;
  static void Fields(Schema<ShapeParam>& s) {
    s.Field("shape", &ShapeParam::shape)
        .Describe("The shape of y.")
        .Check(
            [](const std::vector<int64_t>& dims) {
              const absl::StatusOr<Shape> shape = Shape::FromDims(dims);
              return shape.ok() && shape->known();
            },
            "want at most 8 sizes, each 0 or more, and at most 2^48 elements");
  }
};

absl::StatusOr<bool> GatherNdShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  const Shape &data = (*in)[0], &indices = (*in)[1];
  if (!data.rank_known() || !indices.rank_known()) return false;
  if (indices.ndim() > 0 && indices[0] == Shape::kUnknown) return false;
  ASSIGN_OR_RETURN(const Shape y, GatherNdPartShape(data, indices));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return AllKnown(*in);
}

// The inputs from `first` on are the slices and the indices.
template <size_t first>
absl::StatusOr<bool> ScatterNdShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(attrs.param<ShapeParam>().shape));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  if (first == 1) SHAPE_ASSIGN_CHECK(in, 0, y);
  if (!(*in)[first + 1].known()) return false;
  ASSIGN_OR_RETURN(const Shape part, GatherNdPartShape(y, (*in)[first + 1]));
  SHAPE_ASSIGN_CHECK(in, first, part);
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(gather_nd)
    .describe("y[..., :] = data[indices[0, ...], indices[1, ...], ..., :].")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "Rank 1 or more.")
    .add_argument("indices", "NDArray", "The indexed axes first; any type; negative from the end.")
    .infer(GatherNdShape, IndexedType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_backward_gather_nd", {dy[0], node->inputs[1], node->inputs[0]}), {}};
                         })
    .compute<GatherNd>();

GLUOND_REGISTER_OP(_backward_gather_nd)
    .describe("The gradient of gather_nd's data: the sums of what was taken from each place.")
    .with(GradientByIndex(GradientShape<GatherNdShape>, "indices", "As given to gather_nd.", "data; only its shape is used."))
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("gather_nd", {dy[0], node->inputs[1]}), {}, {}};
                         })
    .compute<BackwardGatherNd>();

GLUOND_REGISTER_OP(scatter_nd)
    .describe(
        "Zeros with y[indices[0, ...], indices[1, ...], ..., :] = data[..., :]; of equal indices the last "
        "counts.")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "The shape of the indices without their first axis, then y's further axes.")
    .add_argument("indices", "NDArray", "The indexed axes first; any type; negative from the end.")
    .params<ShapeParam>()
    .infer(ScatterNdShape<0>, IndexedType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("gather_nd", {dy[0], node->inputs[1]}), {}};
                         })
    .compute<ScatterNd>();

GLUOND_REGISTER_OP(_scatter_set_nd)
    .describe("lhs with y[indices[0, ...], indices[1, ...], ..., :] = rhs[..., :]; of equal indices the last counts.")
    .set_num_inputs(3)
    .add_argument("lhs", "NDArray", "Any shape.")
    .add_argument("rhs", "NDArray", "The shape of the indices without their first axis, then lhs's further axes.")
    .add_argument("indices", "NDArray", "The indexed axes first; any type; negative from the end.")
    .params<ShapeParam>()
    .infer(ScatterNdShape<1>, TypeOfTwo<0, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>(
        "FGradient",
        [](const NodePtr& node, const Gradients& dy) -> Gradients {
          const NodeEntry& indices = node->inputs[2];
          const NodeEntry zeros = Call("zeros_like", {node->inputs[1]});
          return {Call("_scatter_set_nd", {dy[0], zeros, indices}, node->attrs.dict), Call("gather_nd", {dy[0], indices}), {}};
        })
    .compute<ScatterSetNd>();

}  // namespace
}  // namespace gluond::ops
