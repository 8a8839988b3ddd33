// Deconvolution over one to three axes, Convolution and Pooling over three, and UpSampling, by definition.

#include <limits>

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::deconvolution {
namespace {

// Multiples of 1/8: no two neighbours are equal, and each has few bits.
Numbers Varied(const Shape& shape, int step = 7) {
  Numbers n = {shape, {}};
  for (int64_t i = 0; i < shape.Size(); ++i) n.values.push_back((i * step % 31 - 15) / 8.0);
  return n;
}

OP_CASES(
    Deconvolution,
    {
        OpCase{"OfOneElementIsTheWeight",
               "Deconvolution",
               {{{1, 1, 1, 1}, {2}}, {{1, 1, 2, 2}, {1, 2, 3, 4}}},
               {{"kernel", "(2, 2)"}, {"num_filter", "1"}},
               {{{1, 1, 2, 2}, {2, 4, 6, 8}}}}
            .TwiceDifferentiable(),
        OpCase{
            "OfARowWithBias",
            "Deconvolution",
            {Varied({1, 2, 3}), Varied({2, 2, 3}, 11), Varied({2})},
            {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pad", "(1,)"}, {"adj", "(1,)"}, {"num_filter", "2"}, {"no_bias", "False"}},
            {{{1, 2, 6},
              {-0.9375, -2.84375, -1.375, 1.609375, -1.8125, -3.875, -0.34375, -2.09375, -0.34375, 2.265625, -1.3125, -3.375}}}}
            .TwiceDifferentiable(),
        OpCase{"WithGroupsAndDilation",
               "Deconvolution",
               {Varied({1, 4, 2, 2}), Varied({4, 1, 3, 2}, 11)},
               {{"kernel", "(3, 2)"},
                {"stride", "(2, 1)"},
                {"dilate", "(1, 2)"},
                {"pad", "(1, 0)"},
                {"adj", "(1, 0)"},
                {"num_filter", "2"},
                {"num_group", "2"}},
               {{{1, 2, 4, 4}, {0.59375,   -2.765625, 1.21875,   3.171875,  1.796875, -2.015625, 0.59375,   -3.734375,
                                -0.796875, 1.171875,  0.765625,  -1.640625, -0.09375, -0.09375,  -0.953125, 1.453125,
                                1.03125,   -5.90625,  -0.890625, 0.875,     3.265625, 1.015625,  -4.96875,  0.5,
                                0.234375,  0.5625,    0.703125,  0.046875,  -2.21875, -0.46875,  3.09375,   0.46875}}}}
            .TwiceDifferentiable(),
        OpCase{"ToATargetShape",
               "Deconvolution",
               {Varied({1, 1, 2, 2}), Varied({1, 1, 3, 3}, 11)},
               {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pad", "(7, 7)"}, {"target_shape", "(4, 5)"}, {"num_filter", "1"}},
               {{{1, 1, 4, 5}, {3.046875, 0.46875, -0.484375, 0.25,    -1.125,  2.8125,   0.0625, -2.71875,  -0.375, -0.71875,
                                0.203125, 0.03125, -1.359375, -0.1875, 0.84375, 0.171875, 0,      -1.203125, 0,      1.03125}}}}
            .TwiceDifferentiable(),
        OpCase{"OfAVolume",
               "Deconvolution",
               {Varied({1, 2, 2, 1, 2}), Varied({2, 1, 2, 2, 2}, 11), Varied({1})},
               {{"kernel", "(2, 2, 2)"},
                {"stride", "(1, 2, 1)"},
                {"pad", "(0, 0, 1)"},
                {"adj", "(0, 1, 0)"},
                {"num_filter", "1"},
                {"no_bias", "False"}},
               {{{1, 1, 3, 3, 1}, {-2.78125, 2.59375, -1.875, -1.984375, -3.953125, -1.875, -2.78125, -1.890625, -1.875}}}}
            .TwiceDifferentiable(),
        OpCase{"OfARowWithGroupsAndDilation",
               "Deconvolution",
               {Varied({2, 4, 4}), Varied({4, 1, 3}, 11)},
               {{"kernel", "(3,)"},
                {"stride", "(3,)"},
                {"dilate", "(2,)"},
                {"pad", "(1,)"},
                {"adj", "(2,)"},
                {"num_filter", "2"},
                {"num_group", "2"}}}
            .TwiceDifferentiable(),
        OpCase{"OfAVolumeWithGroupsAndDilation",
               "Deconvolution",
               {Varied({1, 4, 2, 2, 2}), Varied({4, 1, 1, 2, 2}, 11)},
               {{"kernel", "(1, 2, 2)"},
                {"stride", "(2, 1, 2)"},
                {"dilate", "(1, 2, 1)"},
                {"adj", "(1, 0, 1)"},
                {"num_filter", "2"},
                {"num_group", "2"}}}
            .TwiceDifferentiable(),
        OpCase{"OfAnEmptyBatch",
               "Deconvolution",
               {{{0, 1, 2, 2}, {}}, {{1, 1, 1, 1}, {2}}},
               {{"kernel", "(1, 1)"}, {"num_filter", "1"}},
               {{{0, 1, 2, 2}, {}}}},
    });

OP_CASES(VolumeConvolution,
         {
             OpCase{"WithStrideAndPadding",
                    "Convolution",
                    {Varied({1, 2, 2, 3, 3}), Varied({2, 2, 2, 2, 2}, 11), Varied({2})},
                    {{"kernel", "(2, 2, 2)"}, {"stride", "(1, 1, 2)"}, {"pad", "(0, 0, 1)"}, {"num_filter", "2"}},
                    {{{1, 2, 1, 2, 2}, {-2.125, -3.21875, -1.34375, -0.5, -0.890625, -1.234375, -1.65625, -6.453125}}}}
                 .TwiceDifferentiable(),
             OpCase{"WithGroupsAndDilation",
                    "Convolution",
                    {Varied({2, 4, 3, 2, 2}), Varied({4, 2, 2, 1, 2}, 11)},
                    {{"kernel", "(2, 1, 2)"},
                     {"dilate", "(2, 1, 1)"},
                     {"pad", "(1, 0, 0)"},
                     {"num_filter", "4"},
                     {"num_group", "2"},
                     {"no_bias", "True"}},
                    {{{2, 4, 3, 2, 1},
                      {2.96875,  1.1875,   9.53125,   -3.59375,  -0.9375,  0.3125,  -1.75,     -2.09375,  -4.265625, 3.890625,
                       4.03125,  -0.0625,  -0.609375, -3.390625, 4.84375,  3.28125, 1.828125,  4.015625,  1.265625,  -3.46875,
                       3.265625, -3.65625, -2.109375, -3.328125, -2,       -2.8125, -1.765625, -1.328125, -1.9375,   0.28125,
                       2.59375,  3.21875,  5.484375,  2.015625,  -0.25,    -3.375,  3.84375,   0.09375,   0.28125,   -2.25,
                       -2.34375, -1.125,   4.859375,  -0.84375,  9.578125, 1.6875,  3.03125,   0.84375}}}}
                 .TwiceDifferentiable(),
             OpCase{
                 "ByChannels",
                 "Convolution",
                 {Varied({2, 2, 3, 2, 3}), Varied({2, 1, 2, 2, 2}, 11), Varied({2})},
                 {{"kernel", "(2, 2, 2)"}, {"stride", "(2, 1, 1)"}, {"pad", "(1, 0, 1)"}, {"num_filter", "2"}, {"num_group", "2"}}}
                 .TwiceDifferentiable(),
             OpCase{"OfOneElement",
                    "Convolution",
                    {{{1, 1, 1, 1, 1}, {3}}, Varied({1, 1, 3, 3, 3}), {{1}, {0.5}}},
                    {{"kernel", "(3, 3, 3)"}, {"pad", "(1, 1, 1)"}, {"num_filter", "1"}}}
                 .TwiceDifferentiable(),
             OpCase{"OfFlatWindows",
                    "Convolution",
                    {{{1, 1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}}, {{1, 1, 1, 2, 2}, {1, 0, 0, -1}}, {{1}, {0.5}}},
                    {{"kernel", "(1, 2, 2)"}, {"num_filter", "1"}, {"layout", "NCDHW"}},
                    {{{1, 1, 1, 1, 2}, {-3.5, -3.5}}}},
             OpCase{"OfAnEmptyBatch",
                    "Convolution",
                    {{{0, 1, 2, 2, 2}, {}}, {{1, 1, 2, 1, 1}, {2, 3}}, {{1}, {0}}},
                    {{"kernel", "(2, 1, 1)"}, {"num_filter", "1"}},
                    {{{0, 1, 1, 2, 2}, {}}}},
         });

const Numbers kVolume = {{1, 1, 2, 2, 3}, {1, 8, 3, 2, 5, 4, 9, 0, 7, 6, 11, 10}};

OP_CASES(VolumePooling,
         {
             {"TakesTheMaximum", "Pooling", {kVolume}, {{"kernel", "(1, 2, 2)"}}, {{{1, 1, 2, 1, 2}, {8, 8, 11, 11}}}},
             {"TakesTheMaximumOfPadded",
              "Pooling",
              {kVolume},
              {{"kernel", "(2, 2, 2)"}, {"pad", "(1, 0, 1)"}, {"stride", "(2, 1, 2)"}},
              {{{1, 1, 2, 1, 2}, {2, 8, 9, 11}}}},
             OpCase{"TakesTheAverage",
                    "Pooling",
                    {kVolume},
                    {{"kernel", "(2, 2, 2)"}, {"pad", "(1, 0, 1)"}, {"stride", "(2, 1, 2)"}, {"pool_type", "avg"}},
                    {{{1, 1, 2, 1, 2}, {0.375, 2.5, 1.875, 3.5}}}}
                 .TwiceDifferentiable(),
             OpCase{"TakesTheAverageOfWhatIsThere",
                    "Pooling",
                    {kVolume},
                    {{"kernel", "(2, 2, 2)"},
                     {"pad", "(1, 0, 1)"},
                     {"stride", "(2, 1, 2)"},
                     {"pool_type", "avg"},
                     {"count_include_pad", "False"}},
                    {{{1, 1, 2, 1, 2}, {1.5, 5, 7.5, 7}}}}
                 .TwiceDifferentiable(),
             OpCase{"GlobalSum", "Pooling", {kVolume}, {{"global_pool", "True"}, {"pool_type", "sum"}}, {{{1, 1, 1, 1, 1}, {66}}}}
                 .TwiceDifferentiable(),
             OpCase{"FullConventionTakesTheAverageOfWhatIsThere",
                    "Pooling",
                    {Varied({1, 2, 3, 2, 4})},
                    {{"kernel", "(2, 2, 3)"},
                     {"pad", "(1, 0, 1)"},
                     {"stride", "(2, 1, 2)"},
                     {"pool_type", "avg"},
                     {"pooling_convention", "full"},
                     {"count_include_pad", "False"}}}
                 .TwiceDifferentiable(),
             {"GlobalMaximum", "Pooling", {kVolume}, {{"global_pool", "True"}}, {{{1, 1, 1, 1, 1}, {11}}}},
             OpCase{"AnInfinityIsInItsWindowsOnly",
                    "Pooling",
                    {{{1, 1, 2, 1, 3}, {1, std::numeric_limits<double>::infinity(), 2, 3, 4, 5}}},
                    {{"kernel", "(1, 1, 2)"}, {"pool_type", "sum"}},
                    {{{1, 1, 2, 1, 2}, {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 7, 9}}}}
                 .WithoutGradient(),
             {"OverlappingMaxima",
              "Pooling",
              {Varied({1, 2, 3, 3, 4}, 12)},
              {{"kernel", "(2, 3, 2)"}, {"pad", "(1, 1, 0)"}, {"pooling_convention", "full"}, {"stride", "(1, 2, 3)"}}},
             {"OfAnEmptyBatch", "Pooling", {{{0, 1, 2, 2, 2}, {}}}, {{"kernel", "(2, 1, 1)"}}, {{{0, 1, 1, 2, 2}, {}}}},
         });

OP_CASES(UpSampling, {
                         OpCase{"RepeatsElements",
                                "UpSampling",
                                {{{1, 1, 2, 2}, {1, 2, 3, 4}}},
                                {{"scale", "2"}, {"sample_type", "nearest"}},
                                {{{1, 1, 4, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}}}}
                             .TwiceDifferentiable(),
                         OpCase{"JoinsChannelsOfOneSize",
                                "UpSampling",
                                {{{2, 1, 1, 1}, {1, 2}}, {{2, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}},
                                {{"scale", "2"}, {"sample_type", "nearest"}},
                                {{{2, 3, 2, 2}, {1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 2, 2, 2, 2, 9, 10, 11, 12, 13, 14, 15, 16}}}}
                             .TwiceDifferentiable(),
                         OpCase{"AddsInputsUp",
                                "UpSampling",
                                {{{1, 1, 1, 2}, {1, 2}}, {{1, 1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}}},
                                {{"scale", "2"}, {"sample_type", "nearest"}, {"multi_input_mode", "sum"}},
                                {{{1, 1, 2, 4}, {1, 2, 4, 5, 5, 6, 8, 9}}}}
                             .TwiceDifferentiable(),
                         OpCase{"BilinearIsADeconvolution",
                                "UpSampling",
                                {{{1, 2, 1, 1}, {1, 2}}, Varied({2, 1, 4, 4})},
                                {{"scale", "2"}, {"sample_type", "bilinear"}, {"num_filter", "2"}},
                                {{{1, 2, 2, 2}, {-1.375, -0.5, -1.75, -0.875, 2, 3.75, 1.25, 3}}}}
                             .TwiceDifferentiable(),
                         OpCase{"RepeatsElementsManyTimes",
                                "UpSampling",
                                {{{1, 2, 2, 1}, {1, 2, 3, 4}}},
                                {{"scale", "9"}, {"sample_type", "nearest"}}}
                             .OnlyFloats(),
                         OpCase{"OfAnEmptyBatch",
                                "UpSampling",
                                {{{0, 1, 2, 2}, {}}},
                                {{"scale", "2"}, {"sample_type", "nearest"}},
                                {{{0, 1, 4, 4}, {}}}},
                     });

TEST(Deconvolution, InfersTheParameters) {
  const Op* op = Op::Find("Deconvolution");
  NodeAttrs attrs;
  attrs.dict = {{"kernel", "(3, 3)"}, {"num_filter", "6"}, {"num_group", "2"}, {"stride", "(2, 2)"}, {"no_bias", "False"}};
  ASSERT_TRUE(op->ParseAttrs(&attrs).ok());
  ShapeVector in = {{5, 4, 3, 4}, {}, {}}, out = {{}};
  EXPECT_TRUE((*op->GetAttr<FInferShape>("FInferShape"))(attrs, &in, &out).value());
  EXPECT_EQ(in[1], Shape({4, 3, 3, 3}));
  EXPECT_EQ(in[2], Shape({6}));
  EXPECT_EQ(out[0], Shape({5, 6, 7, 9}));
}

TEST(Deconvolution, RefusesWhatDoesNotFit) {
  const Numbers x = Varied({1, 2, 2, 2}), w = Varied({2, 1, 2, 2});
  const auto error = [&](AttrDict attrs) {
    attrs.insert({{"kernel", "(2, 2)"}, {"num_filter", "1"}});
    const absl::Status status = ErrorOf("Deconvolution", {x, w}, attrs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_NE(error({{"adj", "(1, 1)"}}).find("'adj' is 1"), std::string::npos);
  EXPECT_NE(error({{"target_shape", "(9, 3)"}}).find("'target_shape' is 9"), std::string::npos);
  EXPECT_NE(error({{"target_shape", "(2, 3)"}}).find("'target_shape' is 2"), std::string::npos);  // With stride 1.
  EXPECT_NE(error({{"pad", "(2, 2)"}}).find("become -1"), std::string::npos);
  EXPECT_NE(error({{"num_group", "2"}}).find("num_group"), std::string::npos);
  EXPECT_NE(error({{"kernel", "(2, 2, 2, 2)"}}).find("'kernel' has 4"), std::string::npos);
}

TEST(UpSampling, RefusesWhatDoesNotFit) {
  const Numbers small = {{1, 1, 1, 1}, {1}}, odd = {{1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  EXPECT_NE(ErrorOf("UpSampling", {small, odd}, {{"scale", "2"}, {"sample_type", "nearest"}}).message().find("input 1"),
            absl::string_view::npos);
  EXPECT_FALSE(ErrorOf("UpSampling", {small}, {{"scale", "2"}, {"sample_type", "bilinear"}}).ok());
}

}  // namespace
}  // namespace gluond::testing::deconvolution
