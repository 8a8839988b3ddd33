#include <cmath>
#include <limits>

#include "engine/core/elementwise.h"
#include "engine/passes/gradient.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::reduce {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const Numbers kX = {{2, 3}, {1, 2, 4, -3, 5, 0.5}};
const Numbers kCube = {{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
const AttrDict kRows = {{"axis", "1"}}, kColumns = {{"axis", "0"}};

OP_CASES(Reduce,
         {
             OpCase{"Everything", "sum", {kX}, {}, {{{1}, {9.5}}}}.TwiceDifferentiable(),
             {"Rows", "sum", {kX}, kRows, {{{2}, {7, 2.5}}}},
             {"Columns", "sum", {kX}, kColumns, {{{3}, {-2, 7, 4.5}}}},
             {"KeepsAxes", "sum", {kX}, {{"axis", "-1"}, {"keepdims", "True"}}, {{{2, 1}, {7, 2.5}}}},
             {"KeepsAllAxes", "sum", {kX}, {{"keepdims", "True"}}, {{{1, 1}, {9.5}}}},
             {"OuterAndInner", "sum", {kCube}, {{"axis", "(0, 2)"}}, {{{2}, {14, 22}}}},
             {"Middle", "sum", {kCube}, {{"axis", "(1,)"}}, {{{2, 2}, {4, 6, 12, 14}}}},
             {"Excluded", "sum", {kCube}, {{"axis", "1"}, {"exclude", "True"}}, {{{2}, {14, 22}}}},
             {"EmptyAxesAreAll", "sum", {kCube}, {{"axis", "()"}}, {{{1}, {36}}}},
             {"RankZero", "sum", {{Shape::Scalar(), {3}}}, {}, {{{1}, {3}}}},
             {"OfNothingIsZero", "sum", {{{0, 2}, {}}}, kColumns, {{{2}, {0, 0}}}},
             {"ToNothing", "sum", {{{0, 2}, {}}}, kRows, {{{0}, {}}}},
             OpCase{"SquareSum", "_square_sum", {kX}, kRows, {{{2}, {21, 34.25}}}}.TwiceDifferentiable(),
             OpCase{
                 "Moments", "moments", {{{2, 3}, {1, 2, 4, 3, 3, 6}}}, {{"axes", "1"}}, {{{2}, {7.0 / 3, 4}}, {{2}, {14.0 / 9, 2}}}}
                 .TwiceDifferentiable(),
             {"MomentsOfAll",
              "moments",
              {{{2, 3}, {1, 2, 4, 3, 3, 6}}},
              {{"keepdims", "True"}},
              {{{1, 1}, {19.0 / 6}}, {{1, 1}, {89.0 / 36}}}},
             {"MomentsOfOne", "moments", {{{2, 1}, {1, 4}}}, {{"axes", "(1,)"}}, {{{2}, {1, 4}}, {{2}, {0, 0}}}},
             {"MomentsToNothing", "moments", {{{0, 2}, {}}}, {{"axes", "(1,)"}}, {{{0}, {}}, {{0}, {}}}},
             OpCase{"Mean", "mean", {kX}, kRows, {{{2}, {7.0 / 3, 2.5 / 3}}}}.TwiceDifferentiable(),
             OpCase{"MeanOfNothingIsNan", "mean", {{{0}, {}}}, {}, {{{1}, {kNan}}}}.OnlyFloats(),
             OpCase{"Prod", "prod", {kX}, kRows, {{{2}, {8, -7.5}}}}.TwiceDifferentiable(),
             {"ProdColumns", "prod", {kX}, kColumns, {{{3}, {-3, 10, 2}}}},
             {"ProdOfNothingIsOne", "prod", {{{0}, {}}}, {}, {{{1}, {1}}}},
             OpCase{"Nansum", "nansum", {{{2, 2}, {1, kNan, 3, 4}}}, kRows, {{{2}, {1, 7}}}}.WithoutGradient(),
             {"NansumOfNumbers", "nansum", {kX}, kRows, {{{2}, {7, 2.5}}}},
             OpCase{"Nanprod", "nanprod", {{{2, 2}, {2, kNan, 3, 4}}}, kRows, {{{2}, {2, 12}}}}.WithoutGradient(),
             {"NanprodOfNumbers", "nanprod", {kX}, kRows, {{{2}, {8, -7.5}}}},
             {"Max", "max", {kX}, kRows, {{{2}, {4, 5}}}},
             {"MaxColumns", "max", {kX}, kColumns, {{{3}, {1, 5, 4}}}},
             {"Min", "min", {kX}, kRows, {{{2}, {1, -3}}}},
             OpCase{"MaxOfNanIsNan", "max", {{{2, 2}, {1, kNan, kNan, 2}}}, kRows, {{{2}, {kNan, kNan}}}}.WithoutGradient(),
             OpCase{"Norm", "norm", {kX}, kRows, {{{2}, {4.5825756950, 5.8523499553}}}}.TwiceDifferentiable(),
             {"NormOfOrderOne", "norm", {kX}, {{"ord", "1"}, {"axis", "0"}}, {{{3}, {4, 7, 4.5}}}},
             {"NormOfEverything", "norm", {{{2}, {3, -4}}}, {}, {{{1}, {5}}}},
             OpCase{"NormInAnotherType", "norm", {{{2}, {3, -4}}}, {{"out_dtype", "float32"}}, {{{1}, {5}}}}.WithoutGradient(),
             OpCase{"CumsumRows", "_np_cumsum", {kX}, kRows, {{{2, 3}, {1, 3, 7, -3, 2, 2.5}}}}.TwiceDifferentiable(),
             {"CumsumColumns", "_np_cumsum", {kX}, kColumns, {{{2, 3}, {1, 2, 4, -2, 7, 4.5}}}},
             {"CumsumOfAll", "_np_cumsum", {kX}, {}, {{{6}, {1, 3, 7, 4, 9, 9.5}}}},
             {"Argmax", "argmax", {kX}, kRows, {{{2}, {2, 1}}}},
             {"ArgmaxColumns", "argmax", {kX}, {{"axis", "0"}, {"keepdims", "True"}}, {{{1, 3}, {0, 1, 0}}}},
             {"ArgmaxOfAll", "argmax", {kX}, {}, {{{1}, {4}}}},
             {"ArgmaxTakesTheFirst", "argmax", {{{4}, {1, 7, 7, 0}}}, {}, {{{1}, {1}}}},
             {"ArgmaxFindsNan", "argmax", {{{3}, {1, kNan, 7}}}, {}, {{{1}, {1}}}},
             {"ArgmaxChannel", "argmax_channel", {kX}, {}, {{{2}, {2, 1}}}},
             {"Argmin", "argmin", {kX}, kRows, {{{2}, {0, 0}}}},
         });

HostTensor Sum(const HostTensor& x, const AttrDict& attrs) {
  std::vector<HostTensor> inputs = {x};
  return (*OneByOne().Call(**TryMakeNode("sum", "y", {MakeVariable("x")}, attrs), &inputs))[0];
}

// float32's own addition would stop at 2^24.
TEST(Reduce, SumsOfManyAreExact) {
  const int64_t n = 200003;
  Numbers x = {{n}, std::vector<double>(n, 0.1f)};
  x.values[0] = 0x1p24;
  const double want = 0x1p24 + (n - 1) * double{0.1f};
  EXPECT_NEAR(Sum(HostTensor::Of(x, DType::kFloat32), {}).values()[0], want, 2);
}

TEST(Reduce, LongColumns) {
  const int64_t rows = 1000, columns = 700;
  Numbers x = {{rows, columns}, {}};
  for (int64_t i = 0; i < rows * columns; ++i) x.values.push_back(i % columns);
  const std::vector<double> y = Sum(HostTensor::Of(x, DType::kFloat32), {{"axis", "0"}}).values();
  ASSERT_EQ(y.size(), columns);
  for (int64_t j = 0; j < columns; ++j) EXPECT_EQ(y[j], static_cast<double>(j * rows));
}

// A gradient at a point where its formula divides by zero, in every floating-point type.
struct PointCase {
  std::string name, op;
  std::vector<Numbers> inputs;
  AttrDict attrs;
  std::vector<Numbers> gradients;  // Those of the inputs, for dy of 2.

  friend void PrintTo(const PointCase& c, std::ostream* os) { *os << c.op << " " << c.name; }
};
class GradientAtAPoint : public ::testing::TestWithParam<PointCase> {};

TEST_P(GradientAtAPoint, IsANumber) {
  const PointCase& c = GetParam();
  std::vector<NodeEntry> xs;
  for (size_t i = 0; i < c.inputs.size(); ++i) xs.push_back(MakeVariable(absl::StrCat("x", i)));
  const NodePtr node = *TryMakeNode(c.op, "y", xs, c.attrs);
  for (const DType type : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    std::map<std::string, HostTensor> at;
    for (size_t i = 0; i < xs.size(); ++i) at[xs[i].node->name()] = HostTensor::Of(c.inputs[i], type);
    const Gradients dy = {2.0 * MakeNode("ones_like", "dy", {Output(node)})};
    const auto dx = OneByOne().Evaluate(*BuildGradient({Output(node)}, xs, dy), at);
    ASSERT_TRUE(dx.ok()) << dx.status();
    for (size_t i = 0; i < xs.size(); ++i) {
      EXPECT_EQ((*dx)[i].shape, c.gradients[i].shape);
      EXPECT_EQ((*dx)[i].values(), c.gradients[i].values) << Name(type) << ", input " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gradients, GradientAtAPoint,
    ::testing::ValuesIn(std::vector<PointCase>{
        {"OneZero", "prod", {{{3}, {2, 0, 3}}}, {}, {{{3}, {0, 12, 0}}}},
        {"ZerosByRows", "prod", {{{3, 2}, {0, 0, 4, 5, 2, 4}}}, {{"axis", "1"}}, {{{3, 2}, {0, 0, 10, 8, 8, 4}}}},
        {"ZeroKept", "prod", {{{2, 2}, {0, 3, 4, 5}}}, {{"axis", "0"}, {"keepdims", "True"}}, {{{2, 2}, {8, 10, 0, 6}}}},
        {"BeyondTheRangeOf16Bits", "prod", {{{4}, {256, 512, 0, 0.125}}}, {}, {{{4}, {0, 0, 32768, 0}}}},
        {"ZeroAndNan", "nanprod", {{{4}, {2, 0, kNan, 3}}}, {}, {{{4}, {0, 12, 0, 0}}}},
        {"OfZero", "norm", {{{2}, {0, 0}}}, {}, {{{2}, {0, 0}}}},
        {"OfZeroRow", "norm", {{{2, 2}, {0, 0, 0, 4}}}, {{"axis", "1"}}, {{{2, 2}, {0, 0, 0, 2}}}},
        {"OfZero", "_hypot", {{{1}, {0}}, {{1}, {0}}}, {}, {{{1}, {0}}, {{1}, {0}}}},
        {"Broadcast", "broadcast_hypot", {{{2}, {0, 3}}, {{1}, {0}}}, {}, {{{2}, {0, 2}}, {{1}, {0}}}},
        {"ByScalar", "_hypot_scalar", {{{2}, {0, 5}}}, {{"scalar", "0"}}, {{{2}, {0, 2}}}},
        {"OfZero", "_power", {{{2}, {0, 0}}, {{2}, {0, 2}}}, {}, {{{2}, {0, 0}}, {{2}, {-kInf, 0}}}},
        {"BroadcastPower", "broadcast_power", {{{2}, {0, 0}}, {{1}, {2}}}, {}, {{{2}, {0, 0}}, {{1}, {0}}}},
        {"ToZero", "_power_scalar", {{{2}, {0, 3}}}, {{"scalar", "0"}}, {{{2}, {0, 0}}}},
        {"OfScalarZero", "_rpower_scalar", {{{2}, {1, 3}}}, {{"scalar", "0"}}, {{{2}, {0, 0}}}},
    }),
    [](const auto& info) { return absl::StrCat(info.param.name, info.index); });

TEST(Reduce, RefusesAnAxisThatIsNotThere) {
  EXPECT_EQ(ErrorOf("sum", {kX}, {{"axis", "2"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("sum", {kX}, {{"axis", "(0, -2)"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("norm", {kX}, {{"ord", "3"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("argmax", {{{0}, {}}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::testing::reduce
