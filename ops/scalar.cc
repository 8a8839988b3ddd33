// Elementwise operators on a tensor and a number, each the operator of arithmetic.h with one side fixed; clip and
// smooth_l1.

#include <cmath>

#include "ops/channel_blocks.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/map.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct ScalarScalarParam : Param<ScalarScalarParam> {
  double scalar;
  bool is_int;
  static void Fields(Schema<ScalarScalarParam>& s) {
    s.Field("scalar", &ScalarScalarParam::scalar).Default(1.0).Describe("The number.");
    s.Field("is_int", &ScalarScalarParam::is_int)
        .Decides()
        .Default(true)
        .Describe("False: the number is not an integer, and with integer input the output is float64.");
  }
};

// Op(x, scalar), or Op(scalar, x).
template <class Op, bool reversed>
struct WithScalar {
  double scalar;
  explicit WithScalar(const NodeAttrs& attrs) : scalar(attrs.param<ScalarScalarParam>().scalar) {}
  template <class C>
  requires std::is_invocable_v<const Op&, C, C> HOST_DEVICE C operator()(C x) const {
    const C s = Convert<C>(scalar);
    return reversed ? Op()(s, x) : Op()(x, s);
  }
};

// The output has the input's type. For integers with a number that is no integer it is float64 (MXNet 1.9.1).
absl::StatusOr<bool> ScalarType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const bool is_int = attrs.param<ScalarScalarParam>().is_int;
  const DType x = (*in)[0];
  if (x == DType::kUnknown) {
    if (IsFloating((*out)[0]) && is_int) TYPE_ASSIGN_CHECK(in, 0, (*out)[0]);
    return AllKnown(*in);
  }
  if (x == DType::kBool) {
    TYPE_ASSIGN_CHECK(out, 0, is_int ? DType::kInt64 : DType::kFloat64);
  } else {
    TYPE_ASSIGN_CHECK(out, 0, IsFloating(x) || is_int ? x : DType::kFloat64);
  }
  return true;
}

// FGradient from an expression of dL/dx, in which s is the number.
struct ScalarTerms {
  NodeEntry x, y, dy;
  double s;
};
struct ScalarChain {
  NodeEntry (*dx)(const ScalarTerms&);
  Gradients operator()(const NodePtr& node, const Gradients& dy) const {
    return {dx({node->inputs[0], Output(node), dy[0], node->param<ScalarScalarParam>().scalar})};
  }
};
using ScalarAt = const ScalarTerms&;

#define SCALAR_OP(name, Op, reversed, text)                     \
  GLUOND_REGISTER_OP(name)                                      \
      .describe(text)                                           \
      .add_argument("data", "NDArray", "Any shape.")            \
      .params<ScalarScalarParam>()                              \
      .infer(ElemwiseShape<1, 1>, ScalarType)                   \
      .with(Elementwise<1>)                                     \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst) \
      .compute<Unary<WithScalar<Op, reversed>>>()
#define SCALAR(name, Op, reversed, text, gradient) \
  SCALAR_OP(name, Op, reversed, text).set_attr<FGradient>("FGradient", ScalarChain{gradient})
#define SCALAR_CONSTANT(name, Op, text) SCALAR_OP(name, Op, false, text).set_attr<FGradient>("FGradient", NoGradient)

SCALAR(_plus_scalar, Add, false, "x + scalar.", [](ScalarAt t) { return t.dy; })
    .add_alias("_PlusScalar")
    .add_alias("_scatter_plus_scalar");
SCALAR(_minus_scalar, Sub, false, "x - scalar.", [](ScalarAt t) { return t.dy; })
    .add_alias("_MinusScalar")
    .add_alias("_scatter_minus_scalar");
SCALAR(_rminus_scalar, Sub, true, "scalar - x.", [](ScalarAt t) { return -t.dy; }).add_alias("_RMinusScalar");
SCALAR(_mul_scalar, Mul, false, "x scalar.", [](ScalarAt t) { return t.s * t.dy; }).add_alias("_MulScalar");
SCALAR(_div_scalar, Div, false, "x / scalar.", [](ScalarAt t) { return t.dy / t.s; }).add_alias("_DivScalar");
SCALAR(_rdiv_scalar, Div, true, "scalar / x.", [](ScalarAt t) { return -(t.dy * t.y / t.x); }).add_alias("_RDivScalar");
SCALAR(_mod_scalar, Mod, false, "x modulo scalar, with the sign of scalar.", [](ScalarAt t) {
  return t.dy;
}).add_alias("_ModScalar");
SCALAR(_rmod_scalar, Mod, true, "scalar modulo x, with the sign of x.", [](ScalarAt t) {
  return -(t.dy * Call("floor", {CallScalar("_rdiv_scalar", t.x, t.s)}));
}).add_alias("_RModScalar");
SCALAR(_power_scalar, Power, false, "x^scalar.", [](ScalarAt t) {
  if (t.s == 0) return Call("zeros_like", {t.x});  // 0 times x^-1 is no number at 0.
  return t.dy * (t.s * CallScalar("_power_scalar", t.x, t.s - 1));
}).add_alias("_PowerScalar");
SCALAR(_rpower_scalar, Power, true, "scalar^x.", [](ScalarAt t) {
  return t.s == 0 ? Call("zeros_like", {t.x}) : std::log(t.s) * (t.dy * t.y);
}).add_alias("_RPowerScalar");
SCALAR(_maximum_scalar, Maximum, false, "max(x, scalar).", [](ScalarAt t) {
  return t.dy * CallScalar("_greater_equal_scalar", t.x, t.s);
}).add_alias("_MaximumScalar");
SCALAR(_minimum_scalar, Minimum, false, "min(x, scalar).", [](ScalarAt t) {
  return t.dy * CallScalar("_lesser_equal_scalar", t.x, t.s);
}).add_alias("_MinimumScalar");
SCALAR(_hypot_scalar, Hypot, false, "sqrt(x^2 + scalar^2).", [](ScalarAt t) {
  return t.dy * PartOfNorm(t.x, t.y);
}).add_alias("_HypotScalar");
SCALAR_CONSTANT(_equal_scalar, Equal, "1 where x = scalar, else 0.").add_alias("_EqualScalar");
SCALAR_CONSTANT(_not_equal_scalar, NotEqual, "1 where x != scalar, else 0.").add_alias("_NotEqualScalar");
SCALAR_CONSTANT(_greater_scalar, Greater, "1 where x > scalar, else 0.").add_alias("_GreaterScalar");
SCALAR_CONSTANT(_greater_equal_scalar, GreaterEqual, "1 where x >= scalar, else 0.").add_alias("_GreaterEqualScalar");
SCALAR_CONSTANT(_lesser_scalar, Lesser, "1 where x < scalar, else 0.").add_alias("_LesserScalar");
SCALAR_CONSTANT(_lesser_equal_scalar, LesserEqual, "1 where x <= scalar, else 0.").add_alias("_LesserEqualScalar");
SCALAR_CONSTANT(_logical_and_scalar, LogicalAnd, "1 where x and scalar are not 0, else 0.").add_alias("_LogicalAndScalar");
SCALAR_CONSTANT(_logical_or_scalar, LogicalOr, "1 where x or scalar is not 0, else 0.").add_alias("_LogicalOrScalar");
SCALAR_CONSTANT(_logical_xor_scalar, LogicalXor, "1 where one of x and scalar is not 0, else 0.").add_alias("_LogicalXorScalar");

struct ClipParam : Param<ClipParam> {
  double a_min, a_max;
  static void Fields(Schema<ClipParam>& s) {
    s.Field("a_min", &ClipParam::a_min).Describe("Smallest value.");
    s.Field("a_max", &ClipParam::a_max).Describe("Largest value.");
  }
};
struct Clip {
  double low, high;
  explicit Clip(const NodeAttrs& attrs) : low(attrs.param<ClipParam>().a_min), high(attrs.param<ClipParam>().a_max) {}
  template <class C>
  HOST_DEVICE C operator()(C x) const {
    const C a = Convert<C>(low), b = Convert<C>(high);
    const C above = x < a ? a : x;
    return above > b ? b : above;
  }
};
Gradients ClipGradient(const NodePtr& node, const Gradients& dy) {
  const ClipParam& p = node->param<ClipParam>();
  const NodeEntry& x = node->inputs[0];
  return {dy[0] * (CallScalar("_greater_equal_scalar", x, p.a_min) * CallScalar("_lesser_equal_scalar", x, p.a_max))};
}

GLUOND_REGISTER_OP(clip)
    .describe("min(max(x, a_min), a_max).")
    .add_argument("data", "NDArray", "Any shape.")
    .params<ClipParam>()
    .with(Elementwise<1>)
    .infer(ElemwiseShape<1, 1>, ElemwiseType<1, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", ClipGradient)
    .compute<Unary<Clip>>();

struct SmoothL1Param : Param<SmoothL1Param> {
  double scalar;
  static void Fields(Schema<SmoothL1Param>& s) {
    s.Field("scalar", &SmoothL1Param::scalar).Default(1.0).Above(0.0).Describe("sigma.");
  }
};
struct SmoothL1 {
  double square;
  explicit SmoothL1(const NodeAttrs& attrs) : square(attrs.param<SmoothL1Param>().scalar * attrs.param<SmoothL1Param>().scalar) {}
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const {
    const C s = static_cast<C>(square), a = math::Abs(x);
    return a * s < 1 ? C(0.5) * s * x * x : a - C(0.5) / s;
  }
};
// sigma^2 x inside, sign(x) outside: one clipped line.
Gradients SmoothL1Gradient(const NodePtr& node, const Gradients& dy) {
  const double sigma = node->param<SmoothL1Param>().scalar;
  return {dy[0] * Call("clip", {sigma * sigma * node->inputs[0]}, {{"a_min", "-1"}, {"a_max", "1"}})};
}

GLUOND_REGISTER_OP(smooth_l1)
    .describe("0.5 (sigma x)^2 where |x| < 1 / sigma^2, else |x| - 0.5 / sigma^2.")
    .add_argument("data", "NDArray", "Any shape.")
    .params<SmoothL1Param>()
    .infer(ElemwiseShape<1, 1>, ElemwiseType<1, 1>)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient", SmoothL1Gradient)
    .compute<Unary<SmoothL1>>();

}  // namespace
}  // namespace gluond::ops
