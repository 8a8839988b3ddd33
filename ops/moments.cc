// moments: the mean and the variance over axes.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/axes.h"
#include "ops/gradient.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/broadcast.h"
#include "ops/kernel/reduce.h"
#include "ops/types.h"

namespace gluond::ops {
namespace {

struct MomentsParam : Param<MomentsParam> {
  AxisList axes;
  bool keepdims;
  static void Fields(Schema<MomentsParam>& s) {
    s.Field("axes", &MomentsParam::axes).Default(std::nullopt).Describe("The axes to reduce over; None or (): all.");
    s.Field("keepdims", &MomentsParam::keepdims).Default(false).Describe("Keeps the reduced axes with size 1.");
  }
};

absl::StatusOr<bool> MomentsShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  const MomentsParam& p = attrs.param<MomentsParam>();
  ASSIGN_OR_RETURN(const uint32_t axes, ReducedAxes(x.ndim(), p.axes, false));
  for (size_t i = 0; i < 2; ++i) SHAPE_ASSIGN_CHECK(out, i, ReducedShape(x, axes, p.keepdims));
  return AllKnown(*in);
}

struct Mean : SumReducer {
  static constexpr bool kReal = true;
  template <class A> HOST_DEVICE static A Final(A a, int64_t count) { return a / static_cast<A>(count); }
};
struct MeanSquare : Mean {
  template <class A> HOST_DEVICE static A Map(A x) { return x * x; }
};

// In two passes, as the sum of squares minus the square of the mean cancels. What lies between them has the type that
// is computed in.
struct Moments {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    const Shape& shape = x[0].shape;
    ASSIGN_OR_RETURN(const uint32_t axes, ReducedAxes(shape.ndim(), attrs.param<MomentsParam>().axes, false));
    RETURN_IF_ERROR(Reduce<D>(ctx, axes, Mean(), x[0], req[0], y[0]));
    if (req[1] == kNullOp || y[1].Size() == 0) return absl::OkStatus();
    const DType type = x[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const auto space = [&](const Shape& s) -> absl::StatusOr<TBlob> {
      ASSIGN_OR_RETURN(void* data, ctx.scratch->Get(static_cast<size_t>(s.Size() * SizeOf(type))));
      return TBlob{data, s, type, x[0].device};
    };
    ASSIGN_OR_RETURN(const TBlob mean, space(ReducedShape(shape, axes, /*keepdims=*/true)));
    ASSIGN_OR_RETURN(const TBlob centered, space(shape));
    RETURN_IF_ERROR(Reduce<D>(ctx, axes, Mean(), x[0], kWriteTo, mean));
    const TBlob terms[2] = {x[0], mean};
    RETURN_IF_ERROR(Broadcast<D>(ctx, Sub(), terms, kWriteTo, centered));
    return Reduce<D>(ctx, axes, MeanSquare(), centered, req[1], y[1]);
  }
};

// d mean: dy / n; d variance: 2 (x - mean) dy / n.
Gradients MomentsGradient(const NodePtr& node, const Gradients& dy) {
  const NodeEntry& x = node->inputs[0];
  const auto spread = [&](const NodeEntry& reduced, bool mean) {
    AttrDict dict = {{"mean", mean ? "True" : "False"}};
    for (const auto& [from, to] : {std::pair("axes", "axis"), std::pair("keepdims", "keepdims")}) {
      if (const auto it = node->attrs.dict.find(from); it != node->attrs.dict.end()) dict[to] = it->second;
    }
    return Call("_spread", {reduced, x}, std::move(dict));
  };
  return {spread(dy[0], true) + 2 * ((x - spread(Output(node), false)) * spread(dy[1], true))};
}

GLUOND_REGISTER_OP(moments)
    .describe("The mean over axes, and the variance around it.")
    .add_argument("data", "NDArray", "Any shape.")
    .add_arguments(MomentsParam::__FIELDS__())
    .set_attr_parser(ParamParser<MomentsParam>)
    .set_num_outputs(2)
    .set_attr<FInferShape>("FInferShape", MomentsShape)
    .set_attr<FInferType>("FInferType", SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", MomentsGradient)
    .compute<Moments>();

}  // namespace
}  // namespace gluond::ops
