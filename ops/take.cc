// take: slices of a along an axis, by index. Its gradient adds each slice back to where it came from.

#include "ops/kernel/gather.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct TakeParam : Param<TakeParam> {
  int axis, mode;
  static void Fields(Schema<TakeParam>& s) {
    s.Field("axis", &TakeParam::axis).Default(0).Describe("The axis of a that is indexed.");
    s.Field("mode", &TakeParam::mode)
        .Enum({{"clip", kClip}, {"raise", kRaise}, {"wrap", kWrap}})
        .Default("clip")
        .Describe("An index out of range: the nearest there is, an error, or modulo the size.");
  }
};

absl::StatusOr<bool> TakeShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape &a = (*in)[0], &indices = (*in)[1];
  if (!a.rank_known() || !indices.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<TakeParam>().axis, a.ndim()));
  std::vector<int64_t> dims(a.begin(), a.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), a.begin() + axis + 1, a.end());
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(dims));
  if (a[axis] == 0 && y.known() && y.Size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", a.ToString(), ": no element to take along axis ", axis));
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return a.known() && indices.known();
}

absl::StatusOr<GatherGeometry> TakeGeometryOf(const NodeAttrs& attrs, const Shape& a, const Shape& indices) {
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<TakeParam>().axis, a.ndim()));
  return GatherGeometry{a.Size(0, axis), a[axis], a.Size(axis + 1, a.ndim()), indices.Size()};
}

struct Take {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    ASSIGN_OR_RETURN(const GatherGeometry g, TakeGeometryOf(attrs, x[0].shape, x[1].shape));
    const IndexMode mode = static_cast<IndexMode>(attrs.param<TakeParam>().mode);
    if (mode == kRaise) RETURN_IF_ERROR(CheckIndices<D>(ctx, x[1], g.n));
    return Gather<D>(ctx, g, mode, x[0], x[1], req[0], y[0]);
  }
};

// Inputs: dy, the indices, and a, whose values are not used.
struct BackwardTake {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs dx) {
    ASSIGN_OR_RETURN(const GatherGeometry g, TakeGeometryOf(attrs, dx[0].shape, x[1].shape));
    return ScatterAdd<D>(ctx, g, static_cast<IndexMode>(attrs.param<TakeParam>().mode), x[0], x[1], req[0], dx[0]);
  }
};

GLUOND_REGISTER_OP(take)
    .describe("y[..., i..., ...] = a[..., indices[i...], ...] along one axis.")
    .set_num_inputs(2)
    .add_argument("a", "NDArray", "Rank 1 or more.")
    .add_argument("indices", "NDArray", "Any shape and type; fractions are cut off, and NaN is 0.")
    .params<TakeParam>()
    .infer(TakeShape, IndexedType)
    .set_attr<FGradient>("FGradient", FirstGradient<1, 0>{"_backward_take"})
    .compute<Take>();

GLUOND_REGISTER_OP(_backward_take)
    .describe("The gradient of take's a.")
    .with(GradientByIndex(GradientShape<TakeShape>, "indices", "As given to take.", "a; only its shape is used."))
    .params<TakeParam>()
    .set_attr<FGradient>("FGradient", FirstGradient<1>{"take"})
    .compute<BackwardTake>();

}  // namespace
}  // namespace gluond::ops
