// The family y = f(x), elementwise. One table at the end: operator, kernel, description, gradient.
// Gradients are graphs, to be differentiated again; gradients that every training step needs are operators.

#include <cmath>

#include "ops/channel_blocks.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/map.h"
#include "ops/kernel/math.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

// A function of real numbers: integers are computed in double and truncated.
#define REAL(Name, formula)               \
  struct Name {                           \
    template <std::floating_point C>      \
    HOST_DEVICE C operator()(C x) const { \
      return formula;                     \
    }                                     \
  }
// One that is exact on integers, too.
#define EXACT(Name, formula)              \
  struct Name {                           \
    template <class C>                    \
    HOST_DEVICE C operator()(C x) const { \
      return formula;                     \
    }                                     \
  }
// One that integers are fixed points of.
#define ROUNDING(Name, formula)              \
  struct Name {                              \
    template <class C>                       \
    HOST_DEVICE C operator()(C x) const {    \
      if constexpr (std::is_integral_v<C>) { \
        return x;                            \
      } else {                               \
        return formula;                      \
      }                                      \
    }                                        \
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
REAL(Degrees, x* C(180 / M_PI));
REAL(Radians, x* C(M_PI / 180));
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

// These gradients are worth a kernel of their own, a function of the head gradient and the output.
struct BackwardRelu {
  template <class C>
  HOST_DEVICE C operator()(C dy, C y) const {
    return y > 0 ? dy : C(0);
  }
};
struct BackwardSigmoid {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C dy, C y) const {
    return dy * y * (1 - y);
  }
};
struct BackwardTanh {
  template <std::floating_point C>
  HOST_DEVICE C operator()(C dy, C y) const {
    return dy * (1 - y * y);
  }
};

using UnaryAt = const UnaryTerms&;

#define ELEMWISE(name, Kernel, inputs, text)                    \
  GLUOND_REGISTER_OP(name)                                      \
      .describe(text)                                           \
      .set_num_inputs(inputs)                                   \
      .infer(ElemwiseShape<inputs, 1>, ElemwiseType<inputs, 1>) \
      .with(Elementwise<inputs>)                                \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst) \
      .compute<Elemwise<Kernel, inputs>>()
#define UNARY_OP(name, Kernel, text) ELEMWISE(name, Kernel, 1, text).add_argument("data", "NDArray", "Any shape.")
#define UNARY(name, Kernel, text, gradient) UNARY_OP(name, Kernel, text).set_attr<FGradient>("FGradient", Chain{gradient})
#define CONSTANT(name, Kernel, text) UNARY_OP(name, Kernel, text).set_attr<FGradient>("FGradient", NoGradient)

// Here a is dL/dy of the forward operator, and b its y.
#define BACKWARD(name, Kernel, d_dy, d_y)                              \
  ELEMWISE(name, Kernel, 2, "The gradient of x by those of y, and y.") \
      .add_argument("dy", "NDArray", "dL/dy.")                         \
      .add_argument("y", "NDArray", "The forward operator's output.")  \
      .set_attr<FGradient>("FGradient", Chain2{d_dy, d_y})

UNARY(relu, Relu, "max(x, 0).", [](UnaryAt t) { return Call("_backward_relu", {t.dy, t.y}); });
UNARY(sigmoid, Sigmoid, "1 / (1 + exp(-x)).", [](UnaryAt t) { return Call("_backward_sigmoid", {t.dy, t.y}); });
UNARY(tanh, Tanh, "Hyperbolic tangent.", [](UnaryAt t) { return Call("_backward_tanh", {t.dy, t.y}); });
BACKWARD(
    _backward_relu, BackwardRelu,
    [](const BinaryTerms& t) {
      return Call("_backward_relu", {t.dy, t.b});
    },
    [](const BinaryTerms&) { return NodeEntry(); });
BACKWARD(
    _backward_sigmoid, BackwardSigmoid,
    [](const BinaryTerms& t) {
      return Call("_backward_sigmoid", {t.dy, t.b});
    },
    [](const BinaryTerms& t) { return t.dy * t.a * (1 - 2 * t.b); });
BACKWARD(
    _backward_tanh, BackwardTanh,
    [](const BinaryTerms& t) {
      return Call("_backward_tanh", {t.dy, t.b});
    },
    [](const BinaryTerms& t) { return t.dy * t.a * (-2 * t.b); });

UNARY_OP(hard_sigmoid, HardSigmoid, "min(1, max(0, alpha x + beta)).")
    .params<HardSigmoidParam>()
    .set_attr<FGradient>("FGradient", HardSigmoidGradient);

UNARY(softsign, Softsign, "x / (1 + |x|).",
      [](UnaryAt t) { return t.dy * Call("reciprocal", {Call("square", {Call("abs", {t.x}) + 1})}); });
UNARY(exp, Exp, "e^x.", [](UnaryAt t) { return t.dy * t.y; });
UNARY(expm1, Expm1, "e^x - 1, accurate near 0.", [](UnaryAt t) { return t.dy * (t.y + 1); });
UNARY(log, Log, "Natural logarithm.", [](UnaryAt t) { return t.dy / t.x; });
UNARY(log1p, Log1p, "log(1 + x), accurate near 0.", [](UnaryAt t) { return t.dy / (t.x + 1); });
UNARY(log2, Log2, "Logarithm to base 2.", [](UnaryAt t) { return t.dy / (M_LN2 * t.x); });
UNARY(log10, Log10, "Logarithm to base 10.", [](UnaryAt t) { return t.dy / (M_LN10 * t.x); });
UNARY(sqrt, Sqrt, "Square root.", [](UnaryAt t) { return 0.5 * (t.dy / t.y); });
UNARY(rsqrt, Rsqrt, "1 / sqrt(x).", [](UnaryAt t) { return -0.5 * (t.dy * t.y * Call("square", {t.y})); });
UNARY(cbrt, Cbrt, "Cube root.", [](UnaryAt t) { return t.dy / (3 * Call("square", {t.y})); });
UNARY(rcbrt, Rcbrt, "1 / cbrt(x).", [](UnaryAt t) { return (-1.0 / 3) * (t.dy * t.y / t.x); });
UNARY(square, Square, "x^2.", [](UnaryAt t) { return 2 * (t.dy * t.x); });
UNARY(abs, Absolute, "|x|.", [](UnaryAt t) { return t.dy * Call("sign", {t.x}); });
UNARY(negative, Negative, "-x.", [](UnaryAt t) { return -t.dy; });
UNARY(reciprocal, Reciprocal, "1 / x.", [](UnaryAt t) { return -(t.dy * Call("square", {t.y})); });
UNARY(sin, Sin, "Sine of x in radians.", [](UnaryAt t) { return t.dy * Call("cos", {t.x}); });
UNARY(cos, Cos, "Cosine of x in radians.", [](UnaryAt t) { return -(t.dy * Call("sin", {t.x})); });
UNARY(tan, Tan, "Tangent of x in radians.", [](UnaryAt t) { return t.dy * (Call("square", {t.y}) + 1); });
UNARY(arcsin, Arcsin, "Inverse sine, -pi/2 to pi/2.", [](UnaryAt t) { return t.dy * Call("rsqrt", {1 - Call("square", {t.x})}); });
UNARY(arccos, Arccos, "Inverse cosine, 0 to pi.", [](UnaryAt t) { return -(t.dy * Call("rsqrt", {1 - Call("square", {t.x})})); });
UNARY(arctan, Arctan, "Inverse tangent, -pi/2 to pi/2.", [](UnaryAt t) { return t.dy / (Call("square", {t.x}) + 1); });
UNARY(sinh, Sinh, "Hyperbolic sine.", [](UnaryAt t) { return t.dy * Call("cosh", {t.x}); });
UNARY(cosh, Cosh, "Hyperbolic cosine.", [](UnaryAt t) { return t.dy * Call("sinh", {t.x}); });
UNARY(arcsinh, Arcsinh, "Inverse hyperbolic sine.", [](UnaryAt t) { return t.dy * Call("rsqrt", {Call("square", {t.x}) + 1}); });
UNARY(arccosh, Arccosh, "Inverse hyperbolic cosine.", [](UnaryAt t) { return t.dy * Call("rsqrt", {Call("square", {t.x}) + -1}); });
UNARY(arctanh, Arctanh, "Inverse hyperbolic tangent.", [](UnaryAt t) { return t.dy / (1 - Call("square", {t.x})); });
UNARY(degrees, Degrees, "Radians to degrees.", [](UnaryAt t) { return t.dy * (180 / M_PI); });
UNARY(radians, Radians, "Degrees to radians.", [](UnaryAt t) { return t.dy * (M_PI / 180); });
UNARY(erf, Erf, "Error function.", [](UnaryAt t) { return M_2_SQRTPI * (t.dy * Call("exp", {-Call("square", {t.x})})); });
UNARY(erfinv, Erfinv, "Inverse error function.",
      [](UnaryAt t) { return (1 / M_2_SQRTPI) * (t.dy * Call("exp", {Call("square", {t.y})})); });
UNARY(gamma, Gamma, "Gamma function.", [](UnaryAt t) { return t.dy * t.y * Call("_digamma", {t.x}); });
UNARY(gammaln, Gammaln, "Logarithm of the gamma function's absolute value.",
      [](UnaryAt t) { return t.dy * Call("_digamma", {t.x}); });
UNARY_OP(_digamma, Digamma, "Derivative of gammaln.");

CONSTANT(sign, Sign, "-1, 0 or 1.");
CONSTANT(floor, Floor, "The next integer that is not above x.");
CONSTANT(ceil, Ceil, "The next integer that is not below x.");
CONSTANT(trunc, Trunc, "The next integer towards 0.");
CONSTANT(fix, Trunc, "The next integer towards 0.");
CONSTANT(round, Round, "The nearest integer; n.5 away from 0.");
CONSTANT(rint, Rint, "The nearest integer; n.5 becomes n.");
CONSTANT(logical_not, LogicalNot, "1 where x is 0, else 0.");

// _contrib_div_sqrt_dim: the scale of attention.
struct UnaryTimes {
  double factor;
  template <std::floating_point C>
  HOST_DEVICE C operator()(C x) const {
    return x * static_cast<C>(factor);
  }
};

struct DivSqrtDim {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const Shape& shape = x[0].shape;
    const double n = shape.ndim() == 0 ? 1 : static_cast<double>(shape.back());
    return Map<D, 1>(ctx, UnaryTimes{1 / std::sqrt(n)}, x.data(), req[0], y[0]);
  }
};

GLUOND_REGISTER_OP(_contrib_div_sqrt_dim)
    .describe("x / sqrt(n), with n the size of the last axis.")
    .add_argument("data", "NDArray", "Any shape.")
    .infer(ElemwiseShape<1, 1>, SameFloatType)
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const Gradients& dy) -> Gradients { return {Call("_contrib_div_sqrt_dim", {dy[0]})}; })
    .compute<DivSqrtDim>();

}  // namespace
}  // namespace gluond::ops
