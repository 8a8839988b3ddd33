// Operators on two tensors that broadcast to one shape, as NumPy's. broadcast_to, broadcast_like and broadcast_axis,
// which repeat a tensor along axes where it has size 1. All gradients are made with _sum_like.

#include "ops/kernel/broadcast.h"
#include "ops/axes.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/reduce.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

absl::StatusOr<bool> InferBroadcast(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  ASSIGN_OR_RETURN(const Shape shape, BroadcastShape((*in)[0], (*in)[1]));
  SHAPE_ASSIGN_CHECK(out, 0, shape);
  return AllKnown(*in) && AllKnown(*out);
}

ShapeRule BroadcastRule() { return DeclareOutputShape(InferBroadcast, OutputShape::kBroadcast); }

using BinaryAt = const BinaryTerms&;

NodeEntry BroadcastTimes(const NodeEntry& a, const NodeEntry& b) { return Call("broadcast_mul", {a, b}); }
NodeEntry Over(const NodeEntry& a, const NodeEntry& b) { return Call("broadcast_div", {a, b}); }

#define BROADCAST_OP(name, Kernel, text)                                                         \
  GLUOND_REGISTER_OP(name)                                                                       \
      .describe(text " The shapes broadcast.")                                                   \
      .set_num_inputs(2)                                                                         \
      .add_argument("lhs", "NDArray", "Any shape.")                                              \
      .add_argument("rhs", "NDArray", "Equal to lhs from the last axis on, or 1 along an axis.") \
      .infer(BroadcastRule(), ElemwiseType<2, 1>)                                                \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)                                 \
      .compute<BroadcastBinary<Kernel>>()
// The gradients before they are summed over the axes along which an input was broadcast.
struct BroadcastChain {
  Chain2 chain;
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    const Gradients whole = chain(node, dy);
    return {SumLike(whole[0], node->inputs[0]), SumLike(whole[1], node->inputs[1])};
  }
};

#define BROADCAST(name, Kernel, text, d_lhs, d_rhs) \
  BROADCAST_OP(name, Kernel, text).set_attr<FGradient>("FGradient", BroadcastChain{{d_lhs, d_rhs}})
#define BROADCAST_CONSTANT(name, Kernel, text) BROADCAST_OP(name, Kernel, text).set_attr<FGradient>("FGradient", NoGradient)

BROADCAST(
    broadcast_add, Add, "a + b.", [](BinaryAt t) { return t.dy; }, [](BinaryAt t) { return t.dy; })
    .add_alias("broadcast_plus");
BROADCAST(
    broadcast_sub, Sub, "a - b.", [](BinaryAt t) { return t.dy; }, [](BinaryAt t) { return -t.dy; })
    .add_alias("broadcast_minus");
BROADCAST(
    broadcast_mul, Mul, "a b.", [](BinaryAt t) { return BroadcastTimes(t.dy, t.b); },
    [](BinaryAt t) { return BroadcastTimes(t.dy, t.a); });
BROADCAST(
    broadcast_div, Div, "a / b.", [](BinaryAt t) { return Over(t.dy, t.b); }, [](BinaryAt t) { return -(Over(t.dy, t.b) * t.y); });
BROADCAST(
    broadcast_mod, Mod, "a modulo b, with the sign of b.", [](BinaryAt t) { return t.dy; },
    [](BinaryAt t) { return -(t.dy * Call("floor", {Over(t.a, t.b)})); });
BROADCAST(
    broadcast_power, Power, "a^b.",
    [](BinaryAt t) {
      const NodeEntry of_a = BroadcastTimes(Call("broadcast_power", {t.a, CallScalar("_minus_scalar", t.b, 1)}), t.b);
      return t.dy * Where(BroadcastTimes(Call("ones_like", {t.y}), t.b), of_a);
    },
    [](BinaryAt t) { return t.dy * Where(t.y, BroadcastTimes(t.y, Call("log", {t.a}))); });
BROADCAST(
    broadcast_maximum, Maximum, "max(a, b).",
    [](BinaryAt t) {
      return t.dy * Call("broadcast_greater_equal", {t.a, t.b});
    },
    [](BinaryAt t) {
      return t.dy * Call("broadcast_lesser", {t.a, t.b});
    });
BROADCAST(
    broadcast_minimum, Minimum, "min(a, b).",
    [](BinaryAt t) {
      return t.dy * Call("broadcast_lesser_equal", {t.a, t.b});
    },
    [](BinaryAt t) {
      return t.dy * Call("broadcast_greater", {t.a, t.b});
    });
BROADCAST(
    broadcast_hypot, Hypot, "sqrt(a^2 + b^2).", [](BinaryAt t) { return t.dy * Over(t.a, OneIfZero(t.y)); },
    [](BinaryAt t) { return t.dy * Over(t.b, OneIfZero(t.y)); });
BROADCAST_CONSTANT(broadcast_equal, Equal, "1 where a = b, else 0.");
BROADCAST_CONSTANT(broadcast_not_equal, NotEqual, "1 where a != b, else 0.");
BROADCAST_CONSTANT(broadcast_greater, Greater, "1 where a > b, else 0.");
BROADCAST_CONSTANT(broadcast_greater_equal, GreaterEqual, "1 where a >= b, else 0.");
BROADCAST_CONSTANT(broadcast_lesser, Lesser, "1 where a < b, else 0.");
BROADCAST_CONSTANT(broadcast_lesser_equal, LesserEqual, "1 where a <= b, else 0.");
BROADCAST_CONSTANT(broadcast_logical_and, LogicalAnd, "1 where a and b are not 0, else 0.");
BROADCAST_CONSTANT(broadcast_logical_or, LogicalOr, "1 where a or b is not 0, else 0.");
BROADCAST_CONSTANT(broadcast_logical_xor, LogicalXor, "1 where one of a and b is not 0, else 0.");

struct SumToShape {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const Shape &from = x[0].shape, &to = y[0].shape;
    if (from == to) return Copy<D>(ctx, x[0], req[0], y[0]);
    uint32_t axes = 0;
    const int missing = from.ndim() - to.ndim();
    for (int axis = 0; axis < from.ndim(); ++axis) {
      if (axis < missing || to[axis - missing] != from[axis]) axes |= 1u << axis;
    }
    return Reduce<D>(ctx, axes, SumReducer(), x[0], req[0], y[0]);
  }
};

GLUOND_REGISTER_OP(_sum_like)
    .describe("x summed over the axes along which `like`, whose values are not used, broadcasts to it.")
    .set_num_inputs(2)
    .add_argument("data", "NDArray", "Any shape.")
    .add_argument("like", "NDArray", "A shape that broadcasts to that of data.")
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
                             SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);
                             if (!AllKnown(*in)) return false;
                             ASSIGN_OR_RETURN(const Shape shape, BroadcastShape((*in)[0], (*in)[1]));
                             if (shape != (*in)[0]) {
                               return absl::InvalidArgumentError(absl::StrCat("input 1 has shape ", (*in)[1].ToString(),
                                                                              ", which does not "
                                                                              "broadcast to that of input 0, ",
                                                                              (*in)[0].ToString()));
                             }
                             return true;
                           })
    .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("broadcast_like", {dy[0], node->inputs[0]}), {}};
                         })
    .compute<SumToShape>();

struct BroadcastToParam : Param<BroadcastToParam> {
  std::vector<int64_t> shape;
  static void Fields(Schema<BroadcastToParam>& s) {
    s.Field("shape", &BroadcastToParam::shape)
        .Default(std::vector<int64_t>())
        .Elements(int64_t{0}, int64_t{1} << 48)
        .Describe("The shape of y; 0 keeps the size of the axis.");
  }
};

struct BroadcastLikeParam : Param<BroadcastLikeParam> {
  AxisList lhs_axes, rhs_axes;
  static void Fields(Schema<BroadcastLikeParam>& s) {
    s.Field("lhs_axes", &BroadcastLikeParam::lhs_axes).Default(std::nullopt).Describe("Axes to repeat; None: all.");
    s.Field("rhs_axes", &BroadcastLikeParam::rhs_axes).Default(std::nullopt).Describe("Axes of rhs with their sizes.");
  }
};

struct BroadcastAxisParam : Param<BroadcastAxisParam> {
  std::vector<int64_t> axis, size;
  static void Fields(Schema<BroadcastAxisParam>& s) {
    s.Field("axis", &BroadcastAxisParam::axis).Default(std::vector<int64_t>()).Describe("Axes to repeat, of size 1.");
    s.Field("size", &BroadcastAxisParam::size)
        .Default(std::vector<int64_t>())
        .Elements(int64_t{0}, int64_t{1} << 48)
        .Describe("Their sizes in y.");
  }
};

// Checks that x broadcasts to the shape `to`, and makes it y's. Requires: x.rank_known().
absl::StatusOr<bool> BroadcastOut(const Shape& x, absl::Span<const int64_t> to, ShapeVector* out) {
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(to));
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const int in_y = axis + y.ndim() - x.ndim();
    if (in_y < 0 || (x[axis] != y[in_y] && x[axis] != 1 && x[axis] != Shape::kUnknown && y[in_y] != Shape::kUnknown)) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", x.ToString(), ", which does not broadcast to ",
                                                     y.ToString(), "; an axis must be equal or 1"));
    }
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return x.known() && y.known();
}

absl::StatusOr<bool> BroadcastToShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  std::vector<int64_t> to = attrs.param<BroadcastToParam>().shape;
  const int missing = static_cast<int>(to.size()) - x.ndim();
  for (int axis = std::max(0, missing); axis < static_cast<int>(to.size()); ++axis) {
    if (to[axis] == 0) to[axis] = x[axis - missing];
  }
  return BroadcastOut(x, to, out);
}

absl::StatusOr<bool> LikeShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const BroadcastLikeParam& p = attrs.param<BroadcastLikeParam>();
  const Shape &x = (*in)[0], &like = (*in)[1];
  if (p.lhs_axes.has_value() != p.rhs_axes.has_value() || (p.lhs_axes && p.lhs_axes->size() != p.rhs_axes->size())) {
    return absl::InvalidArgumentError("lhs_axes and rhs_axes want one length");
  }
  if (!p.lhs_axes) {
    SHAPE_ASSIGN_CHECK(out, 0, like);
    SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);
    if (!x.rank_known() || !like.rank_known()) return false;
    return BroadcastOut(x, like.dims(), out);
  }
  if (!x.rank_known() || !like.rank_known()) return false;
  Shape y = x;
  for (size_t i = 0; i < p.lhs_axes->size(); ++i) {
    ASSIGN_OR_RETURN(const int to, NormalizeAxis((*p.lhs_axes)[i], x.ndim()));
    ASSIGN_OR_RETURN(const int from, NormalizeAxis((*p.rhs_axes)[i], like.ndim()));
    y[to] = like[from];
  }
  return BroadcastOut(x, y.dims(), out);
}

absl::StatusOr<bool> AxisShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const BroadcastAxisParam& p = attrs.param<BroadcastAxisParam>();
  const Shape& x = (*in)[0];
  if (p.axis.size() != p.size.size()) return absl::InvalidArgumentError("axis and size want one length");
  if (!x.rank_known()) return false;
  Shape y = x;
  for (size_t i = 0; i < p.axis.size(); ++i) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis[i], x.ndim()));
    y[axis] = p.size[i];
  }
  return BroadcastOut(x, y.dims(), out);
}

struct BroadcastRepeat {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    StridedCopy copy{.dims = y[0].shape};
    BroadcastStrides(x[0].shape, y[0].shape, copy.x_strides);
    DenseStrides(y[0].shape, copy.y_strides);
    return CopyStrided<D>(ctx, copy, x[0], req[0], y[0]);
  }
};

Gradients SumBack(const NodePtr& node, const Gradients& dy) {
  Gradients dx(node->num_inputs());
  dx[0] = SumLike(dy[0], node->inputs[0]);
  return dx;
}

#define REPEAT(name, P, shape, text)             \
  GLUOND_REGISTER_OP(name)                       \
      .describe(text)                            \
      .params<P>()                               \
      .infer(shape, FirstType)                   \
      .set_attr<FGradient>("FGradient", SumBack) \
      .compute<BroadcastRepeat>()

REPEAT(broadcast_to, BroadcastToParam, BroadcastToShape, "x repeated to a shape.")
    .add_argument("data", "NDArray", "Equal to the shape from the last axis on, or 1 along an axis.");
REPEAT(broadcast_axis, BroadcastAxisParam, AxisShape, "x repeated along some axes.")
    .add_alias("broadcast_axes")
    .add_argument("data", "NDArray", "Size 1 along these axes.");
REPEAT(broadcast_like, BroadcastLikeParam, LikeShape, "lhs repeated to the shape of rhs.")
    .set_num_inputs(2)
    .add_argument("lhs", "NDArray", "Equal to rhs from the last axis on, or 1 along an axis.")
    .add_argument("rhs", "NDArray", "Only its shape is used.")
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>);

}  // namespace
}  // namespace gluond::ops
