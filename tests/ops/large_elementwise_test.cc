// Large rows (op_case.h) of operators that compute each element by itself: functions of one number, of two and of a scalar.

#include "tests/ops/op_case.h"

namespace gluond::testing::large_elementwise {
namespace {

const Shape kSize = {3, 701};

std::vector<OpCase> Each(const std::vector<std::string>& ops, const std::vector<Numbers>& inputs, const AttrDict& attrs = {}) {
  std::vector<OpCase> cases;
  for (const std::string& op : ops) cases.push_back(OpCase{absl::StrCat("Op", op), op, inputs, attrs}.OnlyFloats());
  return cases;
}

std::vector<OpCase> EachActivation(const std::string& op, const std::vector<std::string>& types) {
  std::vector<OpCase> cases;
  for (const std::string& type : types) {
    cases.push_back(OpCase{type, op, {Shuffled(kSize, -3, 3.1)}, {{"act_type", type}}}.OnlyFloats());
  }
  return cases;
}

LARGE_OP_CASES(OfAnyNumber, {Each({"relu",      "sigmoid",    "tanh",      "softsign",     "exp",
                                   "expm1",     "square",     "abs",       "negative",     "sin",
                                   "cos",       "arctan",     "sinh",      "cosh",         "arcsinh",
                                   "degrees",   "radians",    "erf",       "hard_sigmoid", "_copy",
                                   "BlockGrad", "zeros_like", "ones_like", "smooth_l1",    "_contrib_div_sqrt_dim"},
                                  {Shuffled(kSize, -3, 3.1)})});
LARGE_OP_CASES(Rounding,
               {Each({"sign", "floor", "ceil", "trunc", "fix", "round", "rint", "logical_not"}, {Shuffled(kSize, -3, 3.1)})});
LARGE_OP_CASES(OfPositiveNumbers,
               {Each({"log", "log1p", "log2", "log10", "sqrt", "rsqrt", "cbrt", "rcbrt", "reciprocal", "gamma", "gammaln"},
                     {Shuffled(kSize, 0.5, 4)})});
LARGE_OP_CASES(OfNumbersInside, {Each({"tan", "arcsin", "arccos", "arctanh", "erfinv"}, {Shuffled(kSize, -0.8, 0.8)})});
LARGE_OP_CASES(OfNumbersAboveOne, {Each({"arccosh"}, {Shuffled(kSize, 1.25, 4)})});
LARGE_OP_CASES(Activation, {EachActivation("Activation", {"relu", "sigmoid", "tanh", "softrelu", "softsign"})});
LARGE_OP_CASES(LeakyReLU, {EachActivation("LeakyReLU", {"leaky", "elu", "selu", "gelu"})});
LARGE_OP_CASES(
    Prelu,
    {
        // The gradient by a slope is a sum over more than a thousand elements of its channel.
        OpCase{"OfChannels", "LeakyReLU", {Shuffled({5, 2, 701}, -3, 1), {{2}, {0.25, 0.5}}}, {{"act_type", "prelu"}}}.OnlyFloats(),
        OpCase{"OfOneSlope", "LeakyReLU", {Shuffled({5, 701}, -3, 1), {{1}, {0.25}}}, {{"act_type", "prelu"}}}.OnlyFloats(),
    });

const std::vector<Numbers> kPair = {Shuffled(kSize, 0.5, 3), Shuffled(kSize, 4, 1)};
LARGE_OP_CASES(OfTwoNumbers, {Each({"elemwise_add", "elemwise_sub",
                                    "elemwise_mul", "elemwise_div",
                                    "_grad_add",    "_grad_sum",
                                    "add_n",        "_mod",
                                    "_power",       "_maximum",
                                    "_minimum",     "_hypot",
                                    "_equal",       "_not_equal",
                                    "_greater",     "_greater_equal",
                                    "_lesser",      "_lesser_equal",
                                    "_logical_and", "_logical_or",
                                    "_logical_xor", "_identity_with_attr_like_rhs",
                                    "amp_multicast"},
                                   kPair)});

// The gradient by either input is a sum over the other's axis.
const std::vector<Numbers> kColumnAndRow = {Shuffled({2503, 1}, 0.5, 3), Shuffled({1, 3}, 4, 1)};
LARGE_OP_CASES(OfAColumnAndARow,
               {Each({"broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_mod", "broadcast_power",
                      "broadcast_maximum", "broadcast_minimum", "broadcast_hypot", "broadcast_equal", "broadcast_not_equal",
                      "broadcast_greater", "broadcast_greater_equal", "broadcast_lesser", "broadcast_lesser_equal",
                      "broadcast_logical_and", "broadcast_logical_or", "broadcast_logical_xor"},
                     kColumnAndRow)});
const std::vector<Numbers> kRowAndColumn = {Shuffled({1, 2503}, 0.5, 3), Shuffled({3, 1}, 4, 1)};
LARGE_OP_CASES(OfARowAndAColumn, {Each({"broadcast_add", "broadcast_mul", "broadcast_div"}, kRowAndColumn)});

LARGE_OP_CASES(OfAScalar, {Each({"_plus_scalar",          "_minus_scalar",      "_rminus_scalar",       "_mul_scalar",
                                 "_div_scalar",           "_rdiv_scalar",       "_mod_scalar",          "_rmod_scalar",
                                 "_power_scalar",         "_rpower_scalar",     "_maximum_scalar",      "_minimum_scalar",
                                 "_hypot_scalar",         "_equal_scalar",      "_not_equal_scalar",    "_greater_scalar",
                                 "_greater_equal_scalar", "_lesser_scalar",     "_lesser_equal_scalar", "_logical_and_scalar",
                                 "_logical_or_scalar",    "_logical_xor_scalar"},
                                {Shuffled(kSize, 0.5, 4)}, {{"scalar", "1.75"}})});

LARGE_OP_CASES(OfAttributes,
               {
                   OpCase{"MakeLoss", "make_loss", {Shuffled(kSize, -3, 3.1)}}.WithoutGradient().OnlyFloats(),
                   OpCase{"OldMakeLoss", "MakeLoss", {Shuffled(kSize, -3, 3.1)}}.WithoutGradient().OnlyFloats(),
                   OpCase{"Clip", "clip", {Shuffled(kSize, -3, 3.1)}, {{"a_min", "-1.3"}, {"a_max", "2.3"}}}.OnlyFloats(),
                   OpCase{"Cast", "Cast", {Shuffled(kSize, -3, 3.1)}, {{"dtype", "float32"}}}.WithoutGradient().OnlyFloats(),
                   OpCase{"AmpCast", "amp_cast", {Shuffled(kSize, -3, 3.1)}, {{"dtype", "float32"}}}.OnlyFloats(),
                   OpCase{"Where", "where", {Shuffled(kSize, -3, 3.1), Shuffled(kSize, 0, 1), Shuffled(kSize, 1, 2)}}
                       .Constant({0})
                       .OnlyFloats(),
                   OpCase{"Dropout", "Dropout", {Shuffled(kSize, 1, 2)}, {{"p", "0.5"}}}.OnlyFloats(),
               });

}  // namespace
}  // namespace gluond::testing::large_elementwise
