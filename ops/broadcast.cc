// Operators on two tensors that broadcast to one shape, as NumPy's, and the sum that is their gradient.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/broadcast.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/reduce.h"

namespace gluond::ops {
namespace {

absl::StatusOr<bool> InferBroadcast(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  ASSIGN_OR_RETURN(const Shape shape, BroadcastShape((*in)[0], (*in)[1]));
  SHAPE_ASSIGN_CHECK(out, 0, shape);
  return AllKnown(*in) && AllKnown(*out);
}

using E = const NodeEntry&;

NodeEntry Times(E a, E b) { return Call("broadcast_mul", {a, b}); }
NodeEntry Over(E a, E b) { return Call("broadcast_div", {a, b}); }

#define BROADCAST_OP(name, Kernel, text)                                              \
  GLUOND_REGISTER_OP(name)                                                            \
      .describe(text " The shapes broadcast.")                                        \
      .set_num_inputs(2)                                                              \
      .add_argument("lhs", "NDArray", "Any shape.")                                   \
      .add_argument("rhs", "NDArray", "Equal to lhs from the last axis on, or 1 along an axis.") \
      .set_attr<FInferShape>("FInferShape", InferBroadcast)                           \
      .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)                         \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceEither)                      \
      .compute<BroadcastBinary<Kernel>>()
#define BROADCAST(name, Kernel, d_lhs, d_rhs, text)                                   \
  BROADCAST_OP(name, Kernel, text)                                                    \
      .set_attr<FGradient>("FGradient", Chain2{                                       \
          [](E a, E b, E y, E dy) -> NodeEntry { (void)b, (void)y; return SumLike(d_lhs, a); },  \
          [](E a, E b, E y, E dy) -> NodeEntry { (void)a, (void)y; return SumLike(d_rhs, b); }})
#define BROADCAST_CONSTANT(name, Kernel, text)                                        \
  BROADCAST_OP(name, Kernel, text).set_attr<FGradient>("FGradient", NoGradient)

BROADCAST(broadcast_add, Add, dy, dy, "a + b.").add_alias("broadcast_plus");
BROADCAST(broadcast_sub, Sub, dy, -dy, "a - b.").add_alias("broadcast_minus");
BROADCAST(broadcast_mul, Mul, Times(dy, b), Times(dy, a), "a b.");
BROADCAST(broadcast_div, Div, Over(dy, b), -(Over(dy, b) * y), "a / b.");
BROADCAST(broadcast_mod, Mod, dy, -(dy * Call("floor", {Over(a, b)})), "a modulo b, with the sign of b.");
BROADCAST(broadcast_power, Power, dy * Times(Call("broadcast_power", {a, CallScalar("_minus_scalar", b, 1)}), b),
          dy * Times(y, Call("log", {a})), "a^b.");
BROADCAST(broadcast_maximum, Maximum, dy * Call("broadcast_greater_equal", {a, b}),
          dy * Call("broadcast_lesser", {a, b}), "max(a, b).");
BROADCAST(broadcast_minimum, Minimum, dy * Call("broadcast_lesser_equal", {a, b}),
          dy * Call("broadcast_greater", {a, b}), "min(a, b).");
BROADCAST(broadcast_hypot, Hypot, dy * Over(a, y), dy * Over(b, y), "sqrt(a^2 + b^2).");
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
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
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
        return absl::InvalidArgumentError(absl::StrCat("input 1 has shape ", (*in)[1].ToString(), ", which does not "
                                                       "broadcast to that of input 0, ", (*in)[0].ToString()));
      }
      return true;
    })
    .set_attr<FInferType>("FInferType", ElemwiseType<2, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      return {Call("broadcast_like", {dy[0], node->inputs[0]}), {}};
    })
    .compute<SumToShape>();

}  // namespace
}  // namespace gluond::ops
