// The family y = f(x), elementwise. One table at the end: operator, kernel, gradient, description.
// Gradients are graphs, to be differentiated again; those that every training step needs are operators of their own.

#include <cmath>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/map.h"
#include "ops/kernel/math.h"

namespace gluond::ops {
namespace {

// A function of real numbers: integers are computed in double and truncated.
#define REAL(Name, formula)                                       \
  struct Name {                                                   \
    template <std::floating_point C>                              \
    HOST_DEVICE C operator()(C x) const { return formula; }       \
  }
// One that is exact on integers, too.
#define EXACT(Name, formula)                                      \
  struct Name {                                                   \
    template <class C>                                            \
    HOST_DEVICE C operator()(C x) const { return formula; }       \
  }
// One that integers are fixed points of.
#define ROUNDING(Name, formula)                                   \
  struct Name {                                                   \
    template <class C>                                            \
    HOST_DEVICE C operator()(C x) const {                         \
      if constexpr (std::is_integral_v<C>) {                      \
        return x;                                                 \
      } else {                                                    \
        return formula;                                           \
      }                                                           \
    }                                                             \
  }

EXACT(Relu, x > 0 || x != x ? x : C(0));
EXACT(Negative, Sub()(C(0), x));
EXACT(Absolute, x < 0 ? Sub()(C(0), x) : (x == 0 ? C(0) : x));
EXACT(Sign, x > 0 ? C(1) : x < 0 ? C(-1) : (x == 0 ? C(0) : x));
EXACT(Square, Mul()(x, x));
EXACT(LogicalNot, x == 0 ? C(1) : C(0));
ROUNDING(Floor, math::Floor(x));
ROUNDING(Ceil, math::Ceil(x));
ROUNDING(Trunc, math::Trunc(x));
ROUNDING(Round, math::Round(x));
ROUNDING(Rint, (x - math::Floor(x) <= math::Ceil(x) - x ? math::Floor(x) : math::Ceil(x)));  // MXNet's: n.5 to n.

REAL(Sigmoid, math::Sigmoid(x));
REAL(Tanh, math::Tanh(x));
REAL(Softsign, x / (1 + math::Abs(x)));
REAL(Exp, math::Exp(x));
REAL(Expm1, math::Expm1(x));
REAL(Log, math::Log(x));
REAL(Log1p, math::Log1p(x));
REAL(Log2, math::Log2(x));
REAL(Log10, math::Log10(x));
REAL(Sqrt, math::Sqrt(x));
REAL(Rsqrt, 1 / math::Sqrt(x));
REAL(Cbrt, math::Cbrt(x));
REAL(Rcbrt, 1 / math::Cbrt(x));
REAL(Reciprocal, 1 / x);
REAL(Sin, math::Sin(x));
REAL(Cos, math::Cos(x));
REAL(Tan, math::Tan(x));
REAL(Arcsin, math::Asin(x));
REAL(Arccos, math::Acos(x));
REAL(Arctan, math::Atan(x));
REAL(Sinh, math::Sinh(x));
REAL(Cosh, math::Cosh(x));
REAL(Arcsinh, math::Asinh(x));
REAL(Arccosh, math::Acosh(x));
REAL(Arctanh, math::Atanh(x));
REAL(Degrees, x * C(180 / M_PI));
REAL(Radians, x * C(M_PI / 180));
REAL(Erf, math::Erf(x));
REAL(Erfinv, math::ErfInv(x));
REAL(Gamma, math::Gamma(x));
REAL(Gammaln, math::LogGamma(x));
REAL(Digamma, math::Digamma(x));

struct HardSigmoidParam : Param<HardSigmoidParam> {
  double alpha, beta;
  static void Fields(Schema<HardSigmoidParam>& s) {
    s.Field("alpha", &HardSigmoidParam::alpha).Default(0.2).Describe("Slope.");
    s.Field("beta", &HardSigmoidParam::beta).Default(0.5).Describe("Value at 0.");
  }
};
struct HardSigmoid {
  double alpha, beta;
  explicit HardSigmoid(const NodeAttrs& attrs)
      : alpha(attrs.param<HardSigmoidParam>().alpha), beta(attrs.param<HardSigmoidParam>().beta) {}
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const {
    const C y = static_cast<C>(alpha) * x + static_cast<C>(beta);
    return y < 0 ? C(0) : y > 1 ? C(1) : y;
  }
};
Gradients HardSigmoidGradient(const NodePtr& node, const Gradients& dy) {
  const NodeEntry y = Output(node);
  const NodeEntry inside = CallScalar("_greater_scalar", y, 0) * CallScalar("_lesser_scalar", y, 1);
  return {dy[0] * (node->param<HardSigmoidParam>().alpha * inside)};
}

// Gradients that are worth a kernel of their own, by the head gradient and the output.
struct BackwardRelu {
  template <class C>
  HOST_DEVICE C operator()(C dy, C y) const { return y > 0 ? dy : C(0); }
};
struct BackwardSigmoid {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C dy, C y) const { return dy * y * (1 - y); }
};
struct BackwardTanh {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C dy, C y) const { return dy * (1 - y * y); }
};

using E = const NodeEntry&;

#define ELEMWISE(name, Kernel, inputs, text)                                  \
  GLUOND_REGISTER_OP(name)                                                    \
      .describe(text)                                                         \
      .set_num_inputs(inputs)                                                 \
      .set_attr<FInferShape>("FInferShape", ElemwiseShape<inputs, 1>)         \
      .set_attr<FInferType>("FInferType", ElemwiseType<inputs, 1>)            \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)               \
      .compute<Elemwise<Kernel, inputs>>()
#define UNARY(name, Kernel, gradient, text)                                   \
  ELEMWISE(name, Kernel, 1, text)                                             \
      .add_argument("data", "NDArray", "Any shape.")                          \
      .set_attr<FGradient>("FGradient", Chain{[](E x, E y, E dy) -> NodeEntry { (void)x, (void)y; return gradient; }})
#define CONSTANT(name, Kernel, text)                                          \
  ELEMWISE(name, Kernel, 1, text)                                             \
      .add_argument("data", "NDArray", "Any shape.")                          \
      .set_attr<FGradient>("FGradient", NoGradient)
#define BACKWARD(name, Kernel, d_dy, d_y)                                     \
  ELEMWISE(name, Kernel, 2, "The gradient of x by those of y, and y.")        \
      .add_argument("dy", "NDArray", "dL/dy.")                                \
      .add_argument("y", "NDArray", "The forward operator's output.")         \
      .set_attr<FGradient>("FGradient", Chain2{                               \
          [](E dy, E y, E, E g) -> NodeEntry { (void)dy; return d_dy; },      \
          [](E dy, E y, E, E g) -> NodeEntry { (void)dy, (void)y, (void)g; return d_y; }})

UNARY(relu, Relu, Call("_backward_relu", {dy, y}), "max(x, 0).");
UNARY(sigmoid, Sigmoid, Call("_backward_sigmoid", {dy, y}), "1 / (1 + exp(-x)).");
UNARY(tanh, Tanh, Call("_backward_tanh", {dy, y}), "Hyperbolic tangent.");
BACKWARD(_backward_relu, BackwardRelu, Call("_backward_relu", {g, y}), NodeEntry());
BACKWARD(_backward_sigmoid, BackwardSigmoid, Call("_backward_sigmoid", {g, y}), g * dy * (1 - 2 * y));
BACKWARD(_backward_tanh, BackwardTanh, Call("_backward_tanh", {g, y}), g * dy * (-2 * y));

ELEMWISE(hard_sigmoid, HardSigmoid, 1, "min(1, max(0, alpha x + beta)).")
    .add_argument("data", "NDArray", "Any shape.")
    .add_arguments(HardSigmoidParam::__FIELDS__())
    .set_attr_parser(ParamParser<HardSigmoidParam>)
    .set_attr<FGradient>("FGradient", HardSigmoidGradient);

UNARY(softsign, Softsign, dy * Call("reciprocal", {Call("square", {Call("abs", {x}) + 1})}), "x / (1 + |x|).");
UNARY(exp, Exp, dy * y, "e^x.");
UNARY(expm1, Expm1, dy * (y + 1), "e^x - 1, accurate near 0.");
UNARY(log, Log, dy / x, "Natural logarithm.");
UNARY(log1p, Log1p, dy / (x + 1), "log(1 + x), accurate near 0.");
UNARY(log2, Log2, dy / (M_LN2 * x), "Logarithm to base 2.");
UNARY(log10, Log10, dy / (M_LN10 * x), "Logarithm to base 10.");
UNARY(sqrt, Sqrt, 0.5 * (dy / y), "Square root.");
UNARY(rsqrt, Rsqrt, -0.5 * (dy * y * Call("square", {y})), "1 / sqrt(x).");
UNARY(cbrt, Cbrt, dy / (3 * Call("square", {y})), "Cube root.");
UNARY(rcbrt, Rcbrt, (-1.0 / 3) * (dy * y / x), "1 / cbrt(x).");
UNARY(square, Square, 2 * (dy * x), "x^2.");
UNARY(abs, Absolute, dy * Call("sign", {x}), "|x|.");
UNARY(negative, Negative, -dy, "-x.");
UNARY(reciprocal, Reciprocal, -(dy * Call("square", {y})), "1 / x.");
UNARY(sin, Sin, dy * Call("cos", {x}), "Sine of x in radians.");
UNARY(cos, Cos, -(dy * Call("sin", {x})), "Cosine of x in radians.");
UNARY(tan, Tan, dy * (Call("square", {y}) + 1), "Tangent of x in radians.");
UNARY(arcsin, Arcsin, dy * Call("rsqrt", {1 - Call("square", {x})}), "Inverse sine, -pi/2 to pi/2.");
UNARY(arccos, Arccos, -(dy * Call("rsqrt", {1 - Call("square", {x})})), "Inverse cosine, 0 to pi.");
UNARY(arctan, Arctan, dy / (Call("square", {x}) + 1), "Inverse tangent, -pi/2 to pi/2.");
UNARY(sinh, Sinh, dy * Call("cosh", {x}), "Hyperbolic sine.");
UNARY(cosh, Cosh, dy * Call("sinh", {x}), "Hyperbolic cosine.");
UNARY(arcsinh, Arcsinh, dy * Call("rsqrt", {Call("square", {x}) + 1}), "Inverse hyperbolic sine.");
UNARY(arccosh, Arccosh, dy * Call("rsqrt", {Call("square", {x}) + -1}), "Inverse hyperbolic cosine.");
UNARY(arctanh, Arctanh, dy / (1 - Call("square", {x})), "Inverse hyperbolic tangent.");
UNARY(degrees, Degrees, dy * (180 / M_PI), "Radians to degrees.");
UNARY(radians, Radians, dy * (M_PI / 180), "Degrees to radians.");
UNARY(erf, Erf, M_2_SQRTPI * (dy * Call("exp", {-Call("square", {x})})), "Error function.");
UNARY(erfinv, Erfinv, (1 / M_2_SQRTPI) * (dy * Call("exp", {Call("square", {y})})), "Inverse error function.");
UNARY(gamma, Gamma, dy * y * Call("_digamma", {x}), "Gamma function.");
UNARY(gammaln, Gammaln, dy * Call("_digamma", {x}), "Logarithm of the gamma function's absolute value.");
ELEMWISE(_digamma, Digamma, 1, "Derivative of gammaln.").add_argument("data", "NDArray", "Any shape.");

CONSTANT(sign, Sign, "-1, 0 or 1.");
CONSTANT(floor, Floor, "The next integer that is not above x.");
CONSTANT(ceil, Ceil, "The next integer that is not below x.");
CONSTANT(trunc, Trunc, "The next integer towards 0.");
CONSTANT(fix, Trunc, "The next integer towards 0.");
CONSTANT(round, Round, "The nearest integer; n.5 away from 0.");
CONSTANT(rint, Rint, "The nearest integer; n.5 becomes n.");
CONSTANT(logical_not, LogicalNot, "1 where x is 0, else 0.");

}  // namespace
}  // namespace gluond::ops
