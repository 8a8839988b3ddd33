#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace gluond::testing::binary {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

OP_CASES(
    Elemwise,
    {
        OpCase{"Add", "elemwise_add", {{{3}, {1, 2, -3}}, {{3}, {4, -5, 6}}}, {}, {{{3}, {5, -3, 3}}}}.TwiceDifferentiable(),
        OpCase{"Sub", "elemwise_sub", {{{3}, {1, 2, -3}}, {{3}, {4, -5, 6}}}, {}, {{{3}, {-3, 7, -9}}}}.TwiceDifferentiable(),
        OpCase{"Mul", "elemwise_mul", {{{3}, {1, 2, -3}}, {{3}, {4, -5, 6}}}, {}, {{{3}, {4, -10, -18}}}}.TwiceDifferentiable(),
        OpCase{"Div", "elemwise_div", {{{3}, {1, 2, -3}}, {{3}, {4, -8, 0.5}}}, {}, {{{3}, {0.25, -0.25, -6}}}}
            .TwiceDifferentiable(),
        OpCase{"IntegersDivideTowardsZero", "elemwise_div", {{{3}, {7, -7, 6}}, {{3}, {2, 2, 3}}}, {}, {{{3}, {3.5, -3.5, 2}}}}
            .OnlyFloats(),
        {"GradAdd", "_grad_add", {{{2}, {1, 2}}, {{2}, {3, 4}}}, {}, {{{2}, {4, 6}}}},
        {"GradSum", "_grad_sum", {{{2}, {1, 2}}, {{2}, {3, 4}}}, {}, {{{2}, {4, 6}}}},
        {"AddOne", "add_n", {{{2}, {1, 2}}}, {}, {{{2}, {1, 2}}}},
        {"AddTwo", "add_n", {{{2}, {1, 2}}, {{2}, {3, 4}}}, {}, {{{2}, {4, 6}}}},
        {"AddThree", "add_n", {{{1}, {1}}, {{1}, {2}}, {{1}, {3}}}, {}, {{{1}, {6}}}},
        {"AddSix", "add_n", {{{1}, {1}}, {{1}, {2}}, {{1}, {3}}, {{1}, {4}}, {{1}, {5}}, {{1}, {6}}}, {}, {{{1}, {21}}}},
        {"Mod", "_mod", {{{4}, {7, -7, 7, -7}}, {{4}, {3, 3, -3, -3}}}, {}, {{{4}, {1, 2, -2, -1}}}},
        OpCase{"Power", "_power", {{{3}, {2, 0.5, 4}}, {{3}, {3, -1, 0.5}}}, {}, {{{3}, {8, 2, 2}}}}.TwiceDifferentiable(),
        {"Maximum", "_maximum", {{{2}, {1, 4}}, {{2}, {3, 2}}}, {}, {{{2}, {3, 4}}}},
        {"Minimum", "_minimum", {{{2}, {1, 4}}, {{2}, {3, 2}}}, {}, {{{2}, {1, 2}}}},
        OpCase{"Hypot", "_hypot", {{{2}, {3, -5}}, {{2}, {4, 12}}}, {}, {{{2}, {5, 13}}}}.TwiceDifferentiable(),
        {"Equal", "_equal", {{{3}, {1, 2, 3}}, {{3}, {2, 2, 2}}}, {}, {{{3}, {0, 1, 0}}}},
        {"NotEqual", "_not_equal", {{{3}, {1, 2, 3}}, {{3}, {2, 2, 2}}}, {}, {{{3}, {1, 0, 1}}}},
        {"Greater", "_greater", {{{3}, {1, 2, 3}}, {{3}, {2, 2, 2}}}, {}, {{{3}, {0, 0, 1}}}},
        {"GreaterEqual", "_greater_equal", {{{3}, {1, 2, 3}}, {{3}, {2, 2, 2}}}, {}, {{{3}, {0, 1, 1}}}},
        {"Lesser", "_lesser", {{{3}, {1, 2, 3}}, {{3}, {2, 2, 2}}}, {}, {{{3}, {1, 0, 0}}}},
        {"LesserEqual", "_lesser_equal", {{{3}, {1, 2, 3}}, {{3}, {2, 2, 2}}}, {}, {{{3}, {1, 1, 0}}}},
        {"LogicalAnd", "_logical_and", {{{3}, {0, 2, 3}}, {{3}, {0, 0, 2}}}, {}, {{{3}, {0, 0, 1}}}},
        {"LogicalOr", "_logical_or", {{{3}, {0, 2, 3}}, {{3}, {0, 0, 2}}}, {}, {{{3}, {0, 1, 1}}}},
        {"LogicalXor", "_logical_xor", {{{3}, {0, 2, 3}}, {{3}, {0, 0, 2}}}, {}, {{{3}, {0, 1, 0}}}},
        {"NoElements", "elemwise_add", {{{2, 0}, {}}, {{2, 0}, {}}}, {}, {{{2, 0}, {}}}},
    });

// Column (2,1) with row (3), and the like.
const Numbers kColumn = {{2, 1}, {1, -2}}, kRow = {{3}, {4, 0.5, -8}};

OP_CASES(
    Broadcast,
    {
        OpCase{"Add", "broadcast_add", {kColumn, kRow}, {}, {{{2, 3}, {5, 1.5, -7, 2, -1.5, -10}}}}.TwiceDifferentiable(),
        OpCase{"Sub", "broadcast_sub", {kColumn, kRow}, {}, {{{2, 3}, {-3, 0.5, 9, -6, -2.5, 6}}}}.TwiceDifferentiable(),
        OpCase{"Mul", "broadcast_mul", {kColumn, kRow}, {}, {{{2, 3}, {4, 0.5, -8, -8, -1, 16}}}}.TwiceDifferentiable(),
        OpCase{"Div", "broadcast_div", {kColumn, kRow}, {}, {{{2, 3}, {0.25, 2, -0.125, -0.5, -4, 0.25}}}}.TwiceDifferentiable(),
        OpCase{"ModHasTheSignOfTheDivisor",
               "broadcast_mod",
               {{{4}, {7, -7, 7, -7}}, {{4}, {3, 3, -3, -3}}},
               {},
               {{{4}, {1, 2, -2, -1}}}},
        OpCase{"ModByZeroIsZero", "broadcast_mod", {{{2}, {5, -5}}, {{1}, {0}}}, {}, {{{2}, {0, 0}}}}.WithoutGradient(),
        OpCase{"Power", "broadcast_power", {{{2, 1}, {2, 0.5}}, {{2}, {3, -1}}}, {}, {{{2, 2}, {8, 0.5, 0.125, 2}}}}
            .TwiceDifferentiable(),
        {"Maximum", "broadcast_maximum", {kColumn, kRow}, {}, {{{2, 3}, {4, 1, 1, 4, 0.5, -2}}}},
        {"Minimum", "broadcast_minimum", {kColumn, kRow}, {}, {{{2, 3}, {1, 0.5, -8, -2, -2, -8}}}},
        OpCase{"MaximumOfNanIsNan", "broadcast_maximum", {{{2}, {kNan, 1}}, {{2}, {1, kNan}}}, {}, {{{2}, {kNan, kNan}}}}
            .WithoutGradient(),
        OpCase{
            "Hypot", "broadcast_hypot", {{{2}, {3, -5}}, {{2, 1}, {4, 12}}}, {}, {{{2, 2}, {5, 6.4031242374, 12.3693168769, 13}}}}
            .TwiceDifferentiable(),
        {"Equal", "broadcast_equal", {{{2, 1}, {1, 2}}, {{2}, {1, 2}}}, {}, {{{2, 2}, {1, 0, 0, 1}}}},
        {"NotEqual", "broadcast_not_equal", {{{2, 1}, {1, 2}}, {{2}, {1, 2}}}, {}, {{{2, 2}, {0, 1, 1, 0}}}},
        {"Greater", "broadcast_greater", {{{2, 1}, {1, 2}}, {{2}, {1, 2}}}, {}, {{{2, 2}, {0, 0, 1, 0}}}},
        {"GreaterEqual", "broadcast_greater_equal", {{{2, 1}, {1, 2}}, {{2}, {1, 2}}}, {}, {{{2, 2}, {1, 0, 1, 1}}}},
        {"Lesser", "broadcast_lesser", {{{2, 1}, {1, 2}}, {{2}, {1, 2}}}, {}, {{{2, 2}, {0, 1, 0, 0}}}},
        {"LesserEqual", "broadcast_lesser_equal", {{{2, 1}, {1, 2}}, {{2}, {1, 2}}}, {}, {{{2, 2}, {1, 1, 0, 1}}}},
        {"LogicalAnd", "broadcast_logical_and", {{{2, 1}, {0, 2}}, {{2}, {0, 3}}}, {}, {{{2, 2}, {0, 0, 0, 1}}}},
        {"LogicalOr", "broadcast_logical_or", {{{2, 1}, {0, 2}}, {{2}, {0, 3}}}, {}, {{{2, 2}, {0, 1, 1, 1}}}},
        {"LogicalXor", "broadcast_logical_xor", {{{2, 1}, {0, 2}}, {{2}, {0, 3}}}, {}, {{{2, 2}, {0, 1, 1, 0}}}},
        {"MiddleAxis",
         "broadcast_mul",
         {{{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}, {{2, 1, 2}, {1, 10, 2, 3}}},
         {},
         {{{2, 2, 2}, {1, 20, 3, 40, 10, 18, 14, 24}}}},
        {"BothWays",
         "broadcast_add",
         {{{2, 1, 2}, {1, 2, 3, 4}}, {{1, 2, 1}, {10, 20}}},
         {},
         {{{2, 2, 2}, {11, 12, 21, 22, 13, 14, 23, 24}}}},
        {"Scalar", "broadcast_add", {{Shape::Scalar(), {1}}, {{2, 2}, {1, 2, 3, 4}}}, {}, {{{2, 2}, {2, 3, 4, 5}}}},
        {"NoElements", "broadcast_add", {{{0, 3}, {}}, {{3}, {1, 2, 3}}}, {}, {{{0, 3}, {}}}},
        {"OneByNothing", "broadcast_add", {{{1, 3}, {1, 2, 3}}, {{0, 1}, {}}}, {}, {{{0, 3}, {}}}},
    });

TEST(Broadcast, RefusesShapesThatDoNotFit) {
  const absl::Status status = ErrorOf("broadcast_add", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2}, {1, 2}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("axis 1 is 3 and 2"), absl::string_view::npos) << status;
}

TEST(Elemwise, NeverBroadcasts) {
  EXPECT_EQ(ErrorOf("elemwise_add", {{{2}, {1, 2}}, {{1}, {1}}}).code(), absl::StatusCode::kInvalidArgument);
}

// Operations that would trap or be undefined in C++.
TEST(Elemwise, IntegersHaveNoUndefinedValues) {
  const auto divide = [](const char* op, double a, double b, DType type) {
    std::vector<HostTensor> inputs = {HostTensor::Of({{1}, {a}}, type), HostTensor::Of({{1}, {b}}, type)};
    const NodePtr node = *TryMakeNode(op, "y", {MakeVariable("a"), MakeVariable("b")});
    return (*OneByOne().Call(*node, &inputs))[0].values()[0];
  };
  EXPECT_EQ(divide("elemwise_div", 7, 0, DType::kInt32), 0);
  EXPECT_EQ(divide("elemwise_div", -7, 2, DType::kInt32), -3);
  EXPECT_EQ(divide("elemwise_div", -0x1p63, -1, DType::kInt64), -0x1p63);
  EXPECT_EQ(divide("elemwise_mul", 0x1p62, 4, DType::kInt64), 0);
  EXPECT_EQ(divide("elemwise_add", 200, 100, DType::kUint8), 44);
  EXPECT_EQ(divide("broadcast_mod", -0x1p63, -1, DType::kInt64), 0);
  EXPECT_EQ(divide("elemwise_div", 7, 0, DType::kFloat32), kInf);
}

// A walk in tiles and in two pieces ends where it should.
TEST(Elemwise, LongTensors) {
  const int64_t n = 3 * 512 + 17;
  Numbers a = {{n}, {}}, b = {{n}, {}}, y = {{n}, {}};
  for (int64_t i = 0; i < n; ++i) {
    a.values.push_back(i % 101);
    b.values.push_back(i % 7);
    y.values.push_back(i % 101 + i % 7);
  }
  for (DType type : {DType::kFloat32, DType::kFloat16, DType::kInt32, DType::kUint8}) {
    std::vector<HostTensor> inputs = {HostTensor::Of(a, type), HostTensor::Of(b, type)};
    const NodePtr node = *TryMakeNode("elemwise_add", "y", {MakeVariable("a"), MakeVariable("b")});
    EXPECT_EQ((*OneByOne().Call(*node, &inputs))[0].values(), y.values) << type;
  }
}

}  // namespace
}  // namespace gluond::testing::binary
