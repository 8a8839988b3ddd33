// Reductions over axes: sum, mean, prod, nansum, nanprod, max, min, norm, moments. Their gradients are written with
// _spread, which puts a reduced tensor back to the shape that it came from.

#include "ops/kernel/reduce.h"
#include "ops/axes.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/broadcast.h"
#include "ops/kernel/math.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct ReduceParam : Param<ReduceParam> {
  AxisList axis;
  bool keepdims, exclude;
  static void Fields(Schema<ReduceParam>& s) {
    s.Field("axis", &ReduceParam::axis).Default(std::nullopt).Describe("The axes to reduce over; None or (): all.");
    s.Field("keepdims", &ReduceParam::keepdims).Default(false).Describe("Keeps the reduced axes with size 1.");
    s.Field("exclude", &ReduceParam::exclude).Default(false).Describe("Reduces over the axes that are not listed.");
  }
};

struct NormParam : Param<NormParam> {
  int ord;
  AxisList axis;
  std::optional<DType> out_dtype;
  bool keepdims;
  static void Fields(Schema<NormParam>& s) {
    s.Field("ord", &NormParam::ord).Default(2).Range(1, 2).Describe("1: sum of absolute values; 2: Euclidean.");
    s.Field("axis", &NormParam::axis).Default(std::nullopt).Describe("The axes to reduce over; None or (): all.");
    s.Field("out_dtype", &NormParam::out_dtype).Default(std::nullopt).Describe("The type of y; None: that of x.");
    s.Field("keepdims", &NormParam::keepdims).Default(false).Describe("Keeps the reduced axes with size 1.");
  }
  static constexpr bool exclude = false;
};

template <class P>
absl::StatusOr<bool> ReduceShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  const P& p = attrs.param<P>();
  ASSIGN_OR_RETURN(const uint32_t axes, ReducedAxes(x.ndim(), p.axis, p.exclude));
  SHAPE_ASSIGN_CHECK(out, 0, ReducedShape(x, axes, p.keepdims));
  return AllKnown(*in);
}

template <class A>
HOST_DEVICE bool IsNan(A x) {
  return x != x;
}

struct Sum : SumReducer {};
struct Mean : SumReducer {
  static constexpr bool kReal = true;
  template <class A>
  HOST_DEVICE static A Final(A a, int64_t count) {
    return a / static_cast<A>(count);
  }
};
struct NanSum : SumReducer {
  template <class A>
  HOST_DEVICE static A Map(A x) {
    return IsNan(x) ? A(0) : x;
  }
};
struct Prod : SumReducer {
  template <class A>
  HOST_DEVICE static A Init() {
    return A(1);
  }
  template <class A>
  HOST_DEVICE static A Combine(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct NanProd : Prod {
  template <class A>
  HOST_DEVICE static A Map(A x) {
    return IsNan(x) ? A(1) : x;
  }
};
// The maximum, or the minimum; NaN when an element is.
template <bool max>
struct Extreme : SumReducer {
  template <class A>
  HOST_DEVICE static A Init() {
    using Limits = std::numeric_limits<A>;
    if constexpr (std::is_integral_v<A>) {
      return max ? Limits::min() : Limits::max();
    } else {
      return max ? -Limits::infinity() : Limits::infinity();
    }
  }
  template <class A>
  HOST_DEVICE static A Combine(A a, A b) {
    return (max ? a > b : a < b) || IsNan(a) ? a : b;
  }
};
struct Norm1 : SumReducer {
  static constexpr bool kReal = true;
  template <class A>
  HOST_DEVICE static A Map(A x) {
    return math::Abs(x);
  }
};
struct Norm2 : SumReducer {
  static constexpr bool kReal = true;
  template <class A>
  HOST_DEVICE static A Map(A x) {
    return x * x;
  }
  template <class A>
  HOST_DEVICE static A Final(A a, int64_t) {
    return math::Sqrt(a);
  }
};

struct SquareSum : SumReducer {
  template <class A>
  HOST_DEVICE static A Map(A x) {
    return Mul()(x, x);
  }
};

template <class R>
struct ReduceAxes {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const ReduceParam& p = attrs.param<ReduceParam>();
    ASSIGN_OR_RETURN(const uint32_t axes, ReducedAxes(x[0].shape.ndim(), p.axis, p.exclude));
    return Reduce<D>(ctx, axes, R(), x[0], req[0], y[0]);
  }
};

struct Norm {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const NormParam& p = attrs.param<NormParam>();
    ASSIGN_OR_RETURN(const uint32_t axes, ReducedAxes(x[0].shape.ndim(), p.axis, false));
    if (p.ord == 1) return Reduce<D>(ctx, axes, Norm1(), x[0], req[0], y[0]);
    return Reduce<D>(ctx, axes, Norm2(), x[0], req[0], y[0]);
  }
};

// `reduced` along the axes over which `node` reduced, in the shape of `like`, times 1 / their size if `mean`.
NodeEntry Spread(const NodePtr& node, const NodeEntry& reduced, bool mean, const NodeEntry& like) {
  AttrDict dict;
  for (const char* key : {"axis", "keepdims", "exclude"}) {
    if (const auto it = node->attrs.dict.find(key); it != node->attrs.dict.end()) dict.insert(*it);
  }
  if (mean) dict["mean"] = "True";
  return Call("_spread", {reduced, like}, std::move(dict));
}
NodeEntry Spread(const NodePtr& node, const NodeEntry& reduced, bool mean = false) {
  return Spread(node, reduced, mean, node->inputs[0]);
}

// 1 where the element is the one that was chosen.
NodeEntry Chosen(const NodePtr& node) { return Call("broadcast_equal", {node->inputs[0], Spread(node, Output(node))}); }

using UnaryAt = const UnaryTerms&;

// The product of the other elements: of one zero that of all others, and of the others 0, where there is one. 16-bit products
// are those of float32.
NodeEntry ProdGradientOf(UnaryAt t, const NodeEntry& elements) {
  const NodeEntry x = Call("_widen", {elements}), zero = CallScalar("_equal_scalar", x, 0);
  const NodeEntry factors = Call("where", {zero, Call("ones_like", {x}), x});
  const NodeEntry product = Call("prod", {factors}, t.node->attrs.dict), zeros = Call("sum", {zero}, t.node->attrs.dict);
  const auto if_zeros = [&](double n) {
    const NodeEntry dy = Call("_cast_like", {t.dy, product});
    return Spread(t.node, Where(CallScalar("_equal_scalar", zeros, n), dy * product), false, x);
  };
  return Call("_cast_like", {Call("where", {zero, if_zeros(1), if_zeros(0) / factors}), t.x});
}

NodeEntry NanProdGradient(UnaryAt t) {
  const NodeEntry is_number = Call("broadcast_equal", {t.x, t.x});
  return Where(is_number, ProdGradientOf(t, Call("where", {is_number, t.x, Call("ones_like", {t.x})})));
}

#define REDUCE(name, Reducer, text, gradient)              \
  GLUOND_REGISTER_OP(name)                                 \
      .describe(text)                                      \
      .add_argument("data", "NDArray", "Any shape.")       \
      .params<ReduceParam>()                               \
      .infer(ReduceShape<ReduceParam>, ElemwiseType<1, 1>) \
      .set_attr<FGradient>("FGradient", Chain{gradient})   \
      .compute<ReduceAxes<Reducer>>()

REDUCE(sum, Sum, "The sum over axes.", [](UnaryAt t) { return Spread(t.node, t.dy); }).add_alias("sum_axis");
REDUCE(mean, Mean, "The mean over axes.", [](UnaryAt t) { return Spread(t.node, t.dy, true); });
REDUCE(_square_sum, SquareSum, "The sum of squares over axes.", [](UnaryAt t) { return 2 * (Spread(t.node, t.dy) * t.x); });
REDUCE(prod, Prod, "The product over axes.", [](UnaryAt t) { return ProdGradientOf(t, t.x); });
REDUCE(nansum, NanSum, "The sum over axes; NaN counts as 0.", [](UnaryAt t) {
  return Spread(t.node, t.dy) * Call("broadcast_equal", {t.x, t.x});
});
REDUCE(nanprod, NanProd, "The product over axes; NaN counts as 1.", NanProdGradient);
REDUCE(max, Extreme<true>, "The maximum over axes.", [](UnaryAt t) {
  return Spread(t.node, t.dy) * Chosen(t.node);
}).add_alias("max_axis");
REDUCE(min, Extreme<false>, "The minimum over axes.", [](UnaryAt t) {
  return Spread(t.node, t.dy) * Chosen(t.node);
}).add_alias("min_axis");

Gradients NormGradient(const NodePtr& node, const Gradients& dy) {
  const NodeEntry& x = node->inputs[0];
  if (node->param<NormParam>().ord == 1) return {Spread(node, Call("_cast_like", {dy[0], x})) * Call("sign", {x})};
  const NodeEntry wide = Call("_widen", {x});
  const auto spread = [&](const NodeEntry& reduced) { return Spread(node, Call("_cast_like", {reduced, wide}), false, wide); };
  return {Call("_cast_like", {spread(dy[0]) * PartOfNorm(wide, spread(Output(node))), x})};
}

GLUOND_REGISTER_OP(norm)
    .describe("The norm over axes: of order 2, sqrt(sum x^2), or 1, sum |x|.")
    .add_argument("data", "NDArray", "Any shape.")
    .params<NormParam>()
    .set_attr<FInferShape>("FInferShape", ReduceShape<NormParam>)
    .set_attr<FInferType>("FInferType",
                          [](const NodeAttrs& attrs, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
                            TYPE_ASSIGN_CHECK(out, 0, attrs.param<NormParam>().out_dtype.value_or((*in)[0]));
                            return AllKnown(*in);
                          })
    .set_attr<FGradient>("FGradient", NormGradient)
    .compute<Norm>();

struct SpreadParam : Param<SpreadParam> {
  AxisList axis;
  bool keepdims, exclude, mean;
  static void Fields(Schema<SpreadParam>& s) {
    s.Field("axis", &SpreadParam::axis).Default(std::nullopt).Describe("As given to the reduction.");
    s.Field("keepdims", &SpreadParam::keepdims).Default(false).Describe("As given to the reduction.");
    s.Field("exclude", &SpreadParam::exclude).Default(false).Describe("As given to the reduction.");
    s.Field("mean", &SpreadParam::mean).Default(false).Describe("Divides by the number of elements reduced.");
  }
};

struct SpreadOver {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const SpreadParam& p = attrs.param<SpreadParam>();
    const Shape& to = y[0].shape;
    ASSIGN_OR_RETURN(const uint32_t axes, ReducedAxes(to.ndim(), p.axis, p.exclude));
    const Shape kept = ReducedShape(to, axes, /*keepdims=*/true);
    StridedCopy copy{.dims = to};
    BroadcastStrides(kept, to, copy.x_strides);
    DenseStrides(to, copy.y_strides);
    if (p.mean) copy.scale = static_cast<double>(kept.Size()) / static_cast<double>(to.Size());
    return CopyStrided<D>(ctx, copy, x[0], req[0], y[0]);
  }
};

GLUOND_REGISTER_OP(_spread)
    .describe("The gradient of a sum over axes: x along the reduced axes, in the shape of `like`.")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "What the reduction made.")
    .add_argument("like", "NDArray", "What it was made of; only the shape is used.")
    .params<SpreadParam>()
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
                             SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);
                             const Shape& like = (*in)[1];
                             if (!like.rank_known()) return false;
                             const SpreadParam& p = attrs.param<SpreadParam>();
                             ASSIGN_OR_RETURN(const uint32_t axes, ReducedAxes(like.ndim(), p.axis, p.exclude));
                             SHAPE_ASSIGN_CHECK(in, 0, ReducedShape(like, axes, p.keepdims));
                             return AllKnown(*in);
                           })
    .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           AttrDict dict = node->attrs.dict;
                           dict.erase("mean");
                           return {Call(node->param<SpreadParam>().mean ? "mean" : "sum", {dy[0]}, std::move(dict)), {}};
                         })
    .compute<SpreadOver>();

// moments: the mean and the variance over axes.
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

struct MeanSquare : Mean {
  template <class A>
  HOST_DEVICE static A Map(A x) {
    return x * x;
  }
};

// Two passes, as the sum of squares minus the square of the mean cancels. The tensors between them have the type that
// the kernel computes in.
struct Moments {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
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
    .params<MomentsParam>()
    .set_num_outputs(2)
    .infer(MomentsShape, SameFloatType)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .set_attr<THasDeterministicOutput>("THasDeterministicOutput", true)
    .set_attr<FGradient>("FGradient", MomentsGradient)
    .compute<Moments>();

}  // namespace
}  // namespace gluond::ops
