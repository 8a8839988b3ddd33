// y = f(x): each operator against the C library's double function, its gradient and the gradient of that.

#include <cmath>
#include <functional>

#include "tests/ops/op_case.h"

namespace gluond::testing::unary {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Function {
  const char* op;
  std::function<double(double)> f;
  std::vector<double> x;  // Binary fractions of few bits, which every floating-point type holds.
};

std::vector<OpCase> Cases(const std::vector<Function>& functions, bool differentiable) {
  std::vector<OpCase> cases;
  for (const Function& row : functions) {
    std::vector<double> y;
    for (double x : row.x) y.push_back(row.f(x));
    const Shape shape = {static_cast<int64_t>(row.x.size())};
    OpCase c = {"MatchesItsFormula", row.op, {{shape, row.x}}, {}, {{shape, y}}};
    c.name = std::string(row.op) + "MatchesItsFormula";
    c.gradient = c.second_order = differentiable;
    cases.push_back(c);
  }
  return cases;
}

const std::vector<double> kAny = {-2.5, -0.75, -0.125, 0.25, 1, 1.75, 3};
const std::vector<double> kPositive = {0.125, 0.5, 1, 2.5, 8};
const std::vector<double> kInside = {-0.75, -0.25, 0.125, 0.5, 0.875};

OP_CASES(Smooth, (Cases(
                     {
                         {"relu", [](double x) { return std::max(x, 0.0); }, kAny},
                         {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, kAny},
                         {"tanh", [](double x) { return std::tanh(x); }, kAny},
                         {"softsign", [](double x) { return x / (1 + std::abs(x)); }, kAny},
                         {"exp", [](double x) { return std::exp(x); }, kAny},
                         {"expm1", [](double x) { return std::expm1(x); }, kAny},
                         {"log", [](double x) { return std::log(x); }, kPositive},
                         {"log1p", [](double x) { return std::log1p(x); }, kPositive},
                         {"log2", [](double x) { return std::log2(x); }, kPositive},
                         {"log10", [](double x) { return std::log10(x); }, kPositive},
                         {"sqrt", [](double x) { return std::sqrt(x); }, kPositive},
                         {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, kPositive},
                         {"cbrt", [](double x) { return std::cbrt(x); }, kPositive},
                         {"rcbrt", [](double x) { return 1 / std::cbrt(x); }, kPositive},
                         {"square", [](double x) { return x * x; }, kAny},
                         {"abs", [](double x) { return std::abs(x); }, kAny},
                         {"negative", [](double x) { return -x; }, kAny},
                         {"reciprocal", [](double x) { return 1 / x; }, kPositive},
                         {"sin", [](double x) { return std::sin(x); }, kAny},
                         {"cos", [](double x) { return std::cos(x); }, kAny},
                         {"tan", [](double x) { return std::tan(x); }, kInside},
                         {"arcsin", [](double x) { return std::asin(x); }, kInside},
                         {"arccos", [](double x) { return std::acos(x); }, kInside},
                         {"arctan", [](double x) { return std::atan(x); }, kAny},
                         {"sinh", [](double x) { return std::sinh(x); }, kAny},
                         {"cosh", [](double x) { return std::cosh(x); }, kAny},
                         {"arcsinh", [](double x) { return std::asinh(x); }, kAny},
                         {"arccosh", [](double x) { return std::acosh(x); }, {1.25, 1.5, 2, 3.5}},
                         {"arctanh", [](double x) { return std::atanh(x); }, kInside},
                         {"degrees", [](double x) { return x * 180 / M_PI; }, kAny},
                         {"radians", [](double x) { return x * M_PI / 180; }, kAny},
                         {"erf", [](double x) { return std::erf(x); }, kAny},
                     },
                     true)));

// These operators have a gradient that cannot be differentiated again, or they are flat.
std::vector<OpCase> OnceDifferentiable() {
  std::vector<OpCase> cases = Cases(
      {
          {"gamma", [](double x) { return std::tgamma(x); }, {-1.5, -0.5, 0.5, 1.5, 2.5, 4}},
          {"gammaln", [](double x) { return std::lgamma(x); }, {-1.5, 0.5, 1.5, 4, 30}},
      },
      true);
  for (OpCase& c : cases) c.second_order = false;
  return cases;
}
OP_CASES(Once, (OnceDifferentiable()));

OP_CASES(Flat, (Cases(
                   {
                       {"sign", [](double x) { return (x > 0) - (x < 0); }, {-2.5, -1, 0, 1, 3}},
                       {"floor", [](double x) { return std::floor(x); }, {-2.5, -1, 0, 0.5, 3}},
                       {"ceil", [](double x) { return std::ceil(x); }, {-2.5, -1, 0, 0.5, 3}},
                       {"trunc", [](double x) { return std::trunc(x); }, {-2.5, -1, 0, 0.5, 3}},
                       {"fix", [](double x) { return std::trunc(x); }, {-2.5, -1, 0, 0.5, 3}},
                       {"round", [](double x) { return std::round(x); }, {-2.5, -1.5, 0.5, 1.5, 2.125}},
                       {"logical_not", [](double x) { return x == 0; }, {-2.5, -1, 0, 0.5, 3}},
                   },
                   false)));

OP_CASES(
    Unary,
    {
        {"RintTakesHalvesDown", "rint", {{{5}, {-1.5, 1.5, -1.875, 1.875, 2.125}}}, {}, {{{5}, {-2, 1, -2, 2, 2}}}},
        OpCase{"ErfinvUndoesErf",
               "erfinv",
               {{{5}, {-0.75, -0.25, 0, 0.5, 0.875}}},
               {},
               {{{5}, {-0.8134198475976, -0.2253120550122, 0, 0.4769362762044, 1.0847870389030}}}}
            .TwiceDifferentiable(),
        OpCase{"ErfinvAtItsEnds", "erfinv", {{{3}, {-1, 1, 1.5}}}, {}, {{{3}, {-kInf, kInf, kNan}}}}.WithoutGradient().OnlyFloats(),
        {"HardSigmoid", "hard_sigmoid", {{{4}, {-4, -1, 1, 4}}}, {}, {{{4}, {0, 0.3, 0.7, 1}}}},
        {"HardSigmoidByAttributes",
         "hard_sigmoid",
         {{{3}, {-1, 0, 1}}},
         {{"alpha", "0.5"}, {"beta", "0.25"}},
         {{{3}, {0, 0.25, 0.75}}}},
        OpCase{"ReluAtZeroAndNan", "relu", {{{3}, {0, -0.0, kNan}}}, {}, {{{3}, {0, 0, kNan}}}}.WithoutGradient(),
        OpCase{"IntegersWrap", "abs", {{{2}, {-128, 127}}}, {}, {{{2}, {128, 127}}}}.WithoutGradient(),
        OpCase{"SquareOfIntegers", "square", {{{3}, {-3, 0, 11}}}, {}, {{{3}, {9, 0, 121}}}},
        OpCase{"ExpAtItsEnds", "exp", {{{4}, {-kInf, kInf, kNan, 0}}}, {}, {{{4}, {0, kInf, kNan, 1}}}}.WithoutGradient(),
        OpCase{"LogAtItsEnds", "log", {{{5}, {0, -1, kInf, kNan, 1}}}, {}, {{{5}, {-kInf, kNan, kInf, kNan, 0}}}}
            .WithoutGradient()
            .OnlyFloats(),
        OpCase{"TanhAtItsEnds", "tanh", {{{4}, {-kInf, kInf, kNan, 0}}}, {}, {{{4}, {-1, 1, kNan, 0}}}}.WithoutGradient(),
        OpCase{"SigmoidAtItsEnds", "sigmoid", {{{3}, {-kInf, kInf, kNan}}}, {}, {{{3}, {0, 1, kNan}}}}.WithoutGradient(),
        OpCase{"ErfAtItsEnds", "erf", {{{4}, {-kInf, kInf, kNan, 0}}}, {}, {{{4}, {-1, 1, kNan, 0}}}}.WithoutGradient(),
        {"NoElements", "exp", {{{0}, {}}}, {}, {{{0}, {}}}},
        {"RankZero", "negative", {{Shape::Scalar(), {2}}}, {}, {{Shape::Scalar(), {-2}}}},
    });

}  // namespace
}  // namespace gluond::testing::unary
