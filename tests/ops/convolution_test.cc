// Convolution and Pooling as operators: shapes, errors, gradients. tests/ops/kernel compares their values with their
// definitions over many geometries.

#include <limits>

#include "tests/ops/op_case.h"

namespace gluond::testing::convolution {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

// 0, 1/8, -2/8, 3/8, ...: no two neighbours are equal, and each has few bits.
Numbers Varied(const Shape& shape, int step = 7) {
  Numbers n = {shape, {}};
  for (int64_t i = 0; i < shape.Size(); ++i) n.values.push_back((i * step % 31 - 15) / 8.0);
  return n;
}

OP_CASES(
    Convolution,
    {
        OpCase{"OfOneChannel",
               "Convolution",
               {{{1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}}, {{1, 1, 2, 2}, {1, 0, 0, -1}}, {{1}, {0.5}}},
               {{"kernel", "(2, 2)"}, {"num_filter", "1"}},
               {{{1, 1, 1, 2}, {-3.5, -3.5}}}}
            .TwiceDifferentiable(),
        OpCase{"WithoutBiasAndPadded",
               "Convolution",
               {{{1, 1, 2}, {3, 5}}, {{1, 1, 3}, {1, 10, 100}}},
               {{"kernel", "(3,)"}, {"num_filter", "1"}, {"pad", "(1,)"}, {"no_bias", "True"}},
               {{{1, 1, 2}, {530, 53}}}}
            .TwiceDifferentiable(),
        OpCase{"WithGroupsStrideAndDilation",
               "Convolution",
               {Varied({2, 4, 6, 5}), Varied({6, 2, 2, 2}, 11), Varied({6})},
               {{"kernel", "(2, 2)"},
                {"num_filter", "6"},
                {"num_group", "2"},
                {"stride", "(2, 1)"},
                {"dilate", "(2, 1)"},
                {"pad", "(1, 0)"}}}
            .TwiceDifferentiable(),
        OpCase{
            "OfARowWithStrideDilationAndGroups",
            "Convolution",
            {Varied({2, 4, 9}), Varied({4, 2, 3}, 11), Varied({4})},
            {{"kernel", "(3,)"}, {"num_filter", "4"}, {"num_group", "2"}, {"stride", "(2,)"}, {"dilate", "(2,)"}, {"pad", "(2,)"}}}
            .TwiceDifferentiable(),
        OpCase{"OfARowByChannels",
               "Convolution",
               {Varied({2, 3, 5}), Varied({6, 1, 2}, 11)},
               {{"kernel", "(2,)"}, {"num_filter", "6"}, {"num_group", "3"}, {"no_bias", "True"}}}
            .TwiceDifferentiable(),
        OpCase{"OfOneElement",
               "Convolution",
               {{{1, 1, 1}, {3}}, {{1, 1, 1}, {5}}, {{1}, {0.5}}},
               {{"kernel", "(1,)"}, {"num_filter", "1"}},
               {{{1, 1, 1}, {15.5}}}}
            .TwiceDifferentiable(),
        OpCase{"OfAnEmptyBatch",
               "Convolution",
               {{{0, 1, 2, 2}, {}}, {{1, 1, 1, 1}, {2}}, {{1}, {0}}},
               {{"kernel", "(1, 1)"}, {"num_filter", "1"}},
               {{{0, 1, 2, 2}, {}}}},
    });

const Numbers kPlane = {{1, 1, 3, 4}, {1, 8, 3, 2, 5, 4, 9, 0, 7, 6, 11, 10}};

OP_CASES(
    Pooling,
    {
        {"TakesTheMaximum", "Pooling", {kPlane}, {{"kernel", "(2, 2)"}, {"stride", "(1, 2)"}}, {{{1, 1, 2, 2}, {8, 9, 7, 11}}}},
        {"TakesTheAverageWithPadding",
         "Pooling",
         {kPlane},
         {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}, {"pool_type", "avg"}},
         {{{1, 1, 2, 3}, {0.25, 2.75, 0.5, 3, 7.5, 2.5}}}},
        OpCase{
            "TakesTheAverageOfWhatIsThere",
            "Pooling",
            {kPlane},
            {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}, {"pool_type", "avg"}, {"count_include_pad", "False"}},
            {{{1, 1, 2, 3}, {1, 5.5, 2, 6, 7.5, 5}}}}
            .TwiceDifferentiable(),
        OpCase{"TakesTheSum",
               "Pooling",
               {kPlane},
               {{"kernel", "(3, 2)"}, {"stride", "(1, 2)"}, {"pool_type", "sum"}},
               {{{1, 1, 1, 2}, {31, 35}}}}
            .TwiceDifferentiable(),
        {"FullConventionTakesTheRest",
         "Pooling",
         {kPlane},
         {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pooling_convention", "full"}},
         {{{1, 1, 2, 2}, {8, 9, 7, 11}}}},
        {"FullConventionTakesTheSumOfTheRest",
         "Pooling",
         {{{1, 1, 5}, {1, 2, 3, 4, 5}}},
         {{"kernel", "(2,)"}, {"stride", "(3,)"}, {"pooling_convention", "full"}, {"pool_type", "sum"}},
         {{{1, 1, 2}, {3, 9}}}},
        {"FullConventionTakesTheAverageOfTheRest",
         "Pooling",
         {kPlane},
         {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pooling_convention", "full"}, {"pool_type", "avg"}},
         {{{1, 1, 2, 2}, {4.5, 3.5, 6.5, 10.5}}}},
        {"FullConventionWithoutARest",
         "Pooling",
         {kPlane},
         {{"kernel", "(2, 2)"}, {"stride", "(1, 2)"}, {"pooling_convention", "full"}, {"pool_type", "avg"}},
         {{{1, 1, 2, 2}, {4.5, 3.5, 5.5, 7.5}}}},
        {"GlobalTakesThePlane", "Pooling", {kPlane}, {{"global_pool", "True"}}, {{{1, 1, 1, 1}, {11}}}},
        OpCase{"GlobalAverageOfARow",
               "Pooling",
               {{{2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}},
               {{"global_pool", "True"}, {"pool_type", "avg"}},
               {{{2, 1, 1}, {2.5, 6.5}}}}
            .TwiceDifferentiable(),
        {"OverlappingMaxima",
         "Pooling",
         {Varied({2, 3, 5, 5}, 12)},
         {{"kernel", "(3, 3)"}, {"stride", "(1, 1)"}, {"pad", "(1, 1)"}}},
        OpCase{"MaximaWhenPredicting",
               "Pooling",
               {Varied({2, 3, 5, 5}, 12)},
               {{"kernel", "(3, 2)"}, {"stride", "(2, 1)"}, {"pad", "(1, 0)"}}}
            .Predicting(),
        OpCase{"ANanIsTheMaximum",
               "Pooling",
               {{{1, 1, 4}, {kNan, 5, 1, 2}}},
               {{"kernel", "(2,)"}, {"stride", "(2,)"}},
               {{{1, 1, 2}, {kNan, 2}}}}
            .WithoutGradient(),
        OpCase{"NothingIsLessThanMinusInfinity",
               "Pooling",
               {{{1, 1, 3}, {-kInfinity, -kInfinity, 1}}},
               {{"kernel", "(2,)"}, {"pad", "(1,)"}},
               {{{1, 1, 4}, {-kInfinity, -kInfinity, 1, 1}}}}
            .WithoutGradient(),
        OpCase{"AveragesOfARow",
               "Pooling",
               {Varied({2, 2, 7})},
               {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pad", "(1,)"}, {"pool_type", "avg"}}}
            .TwiceDifferentiable(),
        OpCase{"LargeOverlappingAverages",
               "Pooling",
               {Varied({2, 2, 11, 13})},
               {{"kernel", "(9, 10)"}, {"stride", "(1, 1)"}, {"pad", "(4, 3)"}, {"pool_type", "avg"}}},
        OpCase{"OverlappingMaximaOfARow",
               "Pooling",
               {Varied({2, 2, 9}, 12)},
               {{"kernel", "(4,)"}, {"stride", "(3,)"}, {"pad", "(2,)"}, {"pooling_convention", "full"}}},
        OpCase{"GlobalMaximumOfARow",
               "Pooling",
               {{{2, 1, 3}, {1, 7, 7, -4, -2, -3}}},
               {{"global_pool", "True"}},
               {{{2, 1, 1}, {7, -2}}}}
            .WithoutGradient(),
        OpCase{"AveragesOfOneElement",
               "Pooling",
               {{{1, 2, 1}, {3, 5}}},
               {{"kernel", "(3,)"}, {"pad", "(1,)"}, {"pool_type", "avg"}},
               {{{1, 2, 1}, {1, 1.6666667}}}}
            .TwiceDifferentiable(),
        OpCase{"AnInfinityIsInItsWindowsOnly",
               "Pooling",
               {{{1, 1, 6}, {1, kInfinity, 2, 3, 4, 5}}},
               {{"kernel", "(2,)"}, {"pool_type", "avg"}},
               {{{1, 1, 5}, {kInfinity, kInfinity, 2.5, 3.5, 4.5}}}}
            .WithoutGradient(),
        OpCase{
            "OfAnEmptyBatch", "Pooling", {{{0, 1, 2, 2}, {}}}, {{"kernel", "(2, 2)"}, {"pool_type", "avg"}}, {{{0, 1, 1, 1}, {}}}},
    });

// The gradients in every type; GradientMatchesDifferences looks at float64 only. The second input gives its shape only.
const Numbers kSlopes = {{1, 1, 2, 3}, {1, 2, 4, 8, 16, 32}}, kSlopesOfFull = {{1, 1, 2, 2}, {1, 2, 4, 8}};

OP_CASES(BackwardPooling,
         {
             {"OfAverages",
              "_backward_Pooling",
              {kSlopes, kPlane},
              {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}, {"pool_type", "avg"}},
              {{{1, 1, 3, 4}, {0.25, 0.5, 0.5, 1, 2, 4, 4, 8, 2, 4, 4, 8}}}},
             {"OfAveragesOfWhatIsThere",
              "_backward_Pooling",
              {kSlopes, kPlane},
              {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}, {"pool_type", "avg"}, {"count_include_pad", "False"}},
              {{{1, 1, 3, 4}, {1, 1, 1, 4, 4, 4, 4, 16, 4, 4, 4, 16}}}},
             {"OfOverlappingSums",
              "_backward_Pooling",
              {kSlopes, kPlane},
              {{"kernel", "(2, 2)"}, {"pool_type", "sum"}},
              {{{1, 1, 3, 4}, {1, 3, 6, 4, 9, 27, 54, 36, 8, 24, 48, 32}}}},
             {"OfTheFullConvention",
              "_backward_Pooling",
              {kSlopesOfFull, kPlane},
              {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pooling_convention", "full"}, {"pool_type", "avg"}},
              {{{1, 1, 3, 4}, {0.25, 0.25, 0.5, 0.5, 0.25, 0.25, 0.5, 0.5, 2, 2, 4, 4}}}},
         });

TEST(Convolution, InfersTheParameters) {
  const Op* op = Op::Find("Convolution");
  NodeAttrs attrs;
  attrs.dict = {{"kernel", "(3, 3)"}, {"num_filter", "8"}, {"num_group", "2"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}};
  ASSERT_TRUE(op->ParseAttrs(&attrs).ok());
  ShapeVector in = {{5, 4, 9, 10}, {}, {}}, out = {{}};
  EXPECT_TRUE((*op->GetAttr<FInferShape>("FInferShape"))(attrs, &in, &out).value());
  EXPECT_EQ(in[1], Shape({8, 2, 3, 3}));
  EXPECT_EQ(in[2], Shape({8}));
  EXPECT_EQ(out[0], Shape({5, 8, 5, 5}));
}

// Each error says what is wrong, and where.
TEST(Convolution, RefusesWhatDoesNotFit) {
  const Numbers x = Varied({1, 3, 4, 4}), w = Varied({2, 3, 2, 2}), b = Varied({2});
  const auto error = [&](AttrDict attrs) {
    const absl::Status status = ErrorOf("Convolution", {x, w, b}, attrs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_NE(error({{"kernel", "(5, 5)"}, {"num_filter", "2"}}).find("window's 5"), std::string::npos);
  EXPECT_NE(error({{"kernel", "(2, 2, 2, 2)"}, {"num_filter", "2"}}).find("'kernel' has 4"), std::string::npos);
  EXPECT_NE(error({{"kernel", "(2, 2)"}, {"num_filter", "2"}, {"num_group", "2"}}).find("num_group"), std::string::npos);
  EXPECT_NE(error({{"kernel", "(2, 2)"}, {"num_filter", "2"}, {"stride", "(1,)"}}).find("'stride' has 1"), std::string::npos);
  EXPECT_NE(error({{"kernel", "(2, 2)"}, {"num_filter", "2"}, {"stride", "(0, 1)"}}).find("stride"), std::string::npos);
  EXPECT_NE(error({{"kernel", "(2, 9223372036854775807)"}, {"num_filter", "2"}}).find("kernel"), std::string::npos);
}

TEST(Pooling, RefusesWhatDoesNotFit) {
  EXPECT_EQ(ErrorOf("Pooling", {kPlane}, {{"kernel", "(4, 4)"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("Pooling", {kPlane}, {{"kernel", "(2, 2)"}, {"pad", "(2, 2)"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("Pooling", {kPlane}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("Pooling", {{{4}, {1, 2, 3, 4}}}, {{"global_pool", "True"}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::testing::convolution
