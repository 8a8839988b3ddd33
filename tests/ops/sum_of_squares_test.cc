// multi_sum_sq, all_finite, multi_all_finite.

#include <limits>

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::sum_of_squares {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
const Numbers kFine = {{2, 2}, {1, 2, 3, 0.5}}, kEmpty = {{0}, {}};

OP_CASES(SumOfSquares,
         {
             {"OfEachInput", "multi_sum_sq", {kFine, kEmpty, {{1}, {-3}}}, {{"num_arrays", "3"}}, {{{3}, {14.25, 0, 9}}}},
         });

OP_CASES(AllFinite,
         {
             {"Finite", "all_finite", {kFine}, {}, {{{1}, {1}}}},
             OpCase{"NotANumber", "all_finite", {{{3}, {1, kNan, 2}}}, {}, {{{1}, {0}}}}.OnlyFloats(),
             OpCase{"Infinite", "all_finite", {{{3}, {1, 2, -kInf}}}, {}, {{{1}, {0}}}}.OnlyFloats(),
             {"EveryInputIsFinite", "multi_all_finite", {kFine, kEmpty}, {{"num_arrays", "2"}}, {{{1}, {1}}}},
             OpCase{"OneInputIsNot", "multi_all_finite", {kFine, {{1}, {kInf}}}, {{"num_arrays", "2"}}, {{{1}, {0}}}}.OnlyFloats(),
         });

// Longer than a block of partial sums, and not a multiple of it.
TEST(SumOfSquares, OfManyElements) {
  const int64_t n = 100001;
  std::vector<HostTensor> x = {HostTensor::Of({{n}, std::vector<double>(n, 0.5)}, DType::kFloat32)};
  const auto node = TryMakeNode("multi_sum_sq", "y", {MakeVariable("x")}, {{"num_arrays", "1"}});
  EXPECT_NEAR((*OneByOne().Call(**node, &x))[0].values()[0], n * 0.25, 1e-2);
}

// More inputs than one kernel takes, of every kind and size.
TEST(SumOfSquares, OfManyInputs) {
  std::vector<HostTensor> x;
  std::vector<NodeEntry> variables;
  std::vector<double> expected;
  for (int64_t k = 0; k < 300; ++k) {
    const DType type = kAllDTypes[k % std::size(kAllDTypes)];
    const int64_t n = k % 50 == 7 ? 20000 + k : k % 5;
    x.push_back(HostTensor::Of({{n}, std::vector<double>(n, type == DType::kBool ? 1 : 2)}, type));
    variables.push_back(MakeVariable("x"));
    expected.push_back(type == DType::kBool ? n : 4 * n);
  }
  EXPECT_EQ((*OneByOne().Call(**TryMakeNode("multi_sum_sq", "y", variables, {{"num_arrays", "300"}}), &x))[0].values(), expected);
  const auto finite = TryMakeNode("multi_all_finite", "y", variables, {{"num_arrays", "300"}});
  EXPECT_EQ((*OneByOne().Call(**finite, &x))[0].values()[0], 1);
  x[297] = HostTensor::Of({{1}, {kNan}}, DType::kFloat16);
  EXPECT_EQ((*OneByOne().Call(**finite, &x))[0].values()[0], 0);
}

TEST(AllFinite, GoesOnFromTheOutputWhenAskedTo) {
  const auto node = TryMakeNode("all_finite", "y", {MakeVariable("x")}, {{"init_output", "False"}});
  for (const double before : {0.0, 1.0}) {
    std::vector<HostTensor> x = {HostTensor::Of({{1}, {before}}, DType::kFloat32)};
    // The output lies where x does, so that it holds x's value before.
    const auto ys = OneByOne().Call(**node, &x, {.req = kWriteInplace, .inplace_input = 0, .inplace_output = 0});
    EXPECT_EQ((*ys)[0].values()[0], before);
    EXPECT_EQ((*OneByOne().Call(**node, &x))[0].values()[0], 1) << "a new output";
  }
}

}  // namespace
}  // namespace gluond::testing::sum_of_squares
