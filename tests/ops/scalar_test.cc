#include "tests/ops/op_case.h"

namespace gluond::testing::scalar {
namespace {

const AttrDict kTwo = {{"scalar", "2"}}, kThree = {{"scalar", "3"}};

OP_CASES(Scalar, {
                     OpCase{"Plus", "_plus_scalar", {{{3}, {1, 4, 6}}}, kTwo, {{{3}, {3, 6, 8}}}}.TwiceDifferentiable(),
                     {"Minus", "_minus_scalar", {{{3}, {1, 4, 6}}}, kTwo, {{{3}, {-1, 2, 4}}}},
                     {"Rminus", "_rminus_scalar", {{{3}, {1, 4, 6}}}, kTwo, {{{3}, {1, -2, -4}}}},
                     {"Mul", "_mul_scalar", {{{3}, {1, 4, 6}}}, kTwo, {{{3}, {2, 8, 12}}}},
                     {"Div", "_div_scalar", {{{3}, {2, 4, 6}}}, kTwo, {{{3}, {1, 2, 3}}}},
                     OpCase{"Rdiv", "_rdiv_scalar", {{{3}, {1, 4, -8}}}, kTwo, {{{3}, {2, 0.5, -0.25}}}}.TwiceDifferentiable(),
                     {"Mod", "_mod_scalar", {{{3}, {7, -7, 6.5}}}, kThree, {{{3}, {1, 2, 0.5}}}},
                     {"Rmod", "_rmod_scalar", {{{3}, {2, -2, 5}}}, kThree, {{{3}, {1, -1, 3}}}},
                     OpCase{"Power", "_power_scalar", {{{3}, {1, 2, -3}}}, kThree, {{{3}, {1, 8, -27}}}}.TwiceDifferentiable(),
                     OpCase{"Rpower", "_rpower_scalar", {{{3}, {1, 2, 0}}}, kThree, {{{3}, {3, 9, 1}}}}.TwiceDifferentiable(),
                     {"Maximum", "_maximum_scalar", {{{3}, {1, 4, 3}}}, kTwo, {{{3}, {2, 4, 3}}}},
                     {"Minimum", "_minimum_scalar", {{{3}, {1, 4, 3}}}, kTwo, {{{3}, {1, 2, 2}}}},
                     OpCase{"Hypot", "_hypot_scalar", {{{2}, {4, -4}}}, kThree, {{{2}, {5, 5}}}}.TwiceDifferentiable(),
                     {"Equal", "_equal_scalar", {{{3}, {1, 2, 3}}}, kTwo, {{{3}, {0, 1, 0}}}},
                     {"NotEqual", "_not_equal_scalar", {{{3}, {1, 2, 3}}}, kTwo, {{{3}, {1, 0, 1}}}},
                     {"Greater", "_greater_scalar", {{{3}, {1, 2, 3}}}, kTwo, {{{3}, {0, 0, 1}}}},
                     {"GreaterEqual", "_greater_equal_scalar", {{{3}, {1, 2, 3}}}, kTwo, {{{3}, {0, 1, 1}}}},
                     {"Lesser", "_lesser_scalar", {{{3}, {1, 2, 3}}}, kTwo, {{{3}, {1, 0, 0}}}},
                     {"LesserEqual", "_lesser_equal_scalar", {{{3}, {1, 2, 3}}}, kTwo, {{{3}, {1, 1, 0}}}},
                     {"LogicalAnd", "_logical_and_scalar", {{{3}, {0, 2, 3}}}, kTwo, {{{3}, {0, 1, 1}}}},
                     {"LogicalOr", "_logical_or_scalar", {{{3}, {0, 2, 3}}}, {{"scalar", "0"}}, {{{3}, {0, 1, 1}}}},
                     {"LogicalXor", "_logical_xor_scalar", {{{3}, {0, 2, 3}}}, kTwo, {{{3}, {1, 0, 0}}}},
                     OpCase{"Clip", "clip", {{{4}, {-3, 0, 1, 9}}}, {{"a_min", "-1"}, {"a_max", "2"}}, {{{4}, {-1, 0, 1, 2}}}}
                         .TwiceDifferentiable(),
                     {"SmoothL1", "smooth_l1", {{{4}, {-2, -0.25, 0.5, 3}}}, {}, {{{4}, {1.5, 0.03125, 0.125, 2.5}}}},
                     {"SmoothL1OfSigmaTwo", "smooth_l1", {{{3}, {-1, 0.125, 2}}}, kTwo, {{{3}, {0.875, 0.03125, 1.875}}}},
                     {"NoElements", "_plus_scalar", {{{0}, {}}}, kTwo, {{{0}, {}}}},
                 });

TEST(Scalar, AFractionMakesIntegersFloat64) {
  std::vector<HostTensor> inputs = {HostTensor::Of({{1}, {3}}, DType::kInt32)};
  const NodePtr node = *TryMakeNode("_plus_scalar", "y", {MakeVariable("x")}, {{"scalar", "0.5"}, {"is_int", "False"}});
  const HostTensor y = (*OneByOne().Call(*node, &inputs))[0];
  EXPECT_EQ(y.dtype, DType::kFloat64);
  EXPECT_EQ(y.values()[0], 3.5);
}

TEST(Scalar, DividingIntegersByZeroIsZero) {
  std::vector<HostTensor> inputs = {HostTensor::Of({{1}, {3}}, DType::kInt32)};
  const NodePtr node = *TryMakeNode("_div_scalar", "y", {MakeVariable("x")}, {{"scalar", "0"}});
  EXPECT_EQ((*OneByOne().Call(*node, &inputs))[0].values()[0], 0);
}

TEST(Scalar, RefusesWhatIsNoNumber) {
  const absl::Status status = ErrorOf("_plus_scalar", {{{1}, {1}}}, {{"scalar", "two"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'scalar'"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace gluond::testing::scalar
