// InstanceNorm, GroupNorm, L2Normalization and LRN, by formula.

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::group_norm {
namespace {

const Numbers kX = {{2, 4, 3}, {-1.875, -1,   -0.125, 0.75,   1.625, -1.375, -0.5,   0.375, 1.25,  -1.75, -0.875, 0,
                                0.875,  1.75, -1.25,  -0.375, 0.5,   1.375,  -1.625, -0.75, 0.125, 1,     1.875,  -1.125}};
const Numbers kImage = {{2, 4, 3, 1}, kX.values};
const Numbers kGamma = {{4}, {1, 2, 3, 4}}, kBeta = {{4}, {0, 1, 2, 3}};

OP_CASES(InstanceNorm,
         {
             OpCase{"OfEachChannel",
                    "InstanceNorm",
                    {kX, kGamma, kBeta},
                    {{"eps", "0.125"}},
                    {{{2, 4, 3}, {-1.0976876, 0,          1.0976876,  1.6369298, 2.9744822,  -1.611412,  -1.2930628, 2,
                                  5.2930628,  -1.3907503, 3,          7.3907503, 0.31846488, 0.98724112, -1.305706,  -1.1953752,
                                  1,          3.1953752,  -1.2930628, 2,         5.2930628,  4.2738595,  6.9489645,  -2.222824}}}}
                 .TwiceDifferentiable()
                 .Tolerance(4),
             OpCase{"OfImages", "InstanceNorm", {{{1, 2, 2, 2}, {1, 2, 3, 5, -1, 0, 2, 4}}, {{2}, {1, 2}}, {{2}, {0, 1}}}}
                 .TwiceDifferentiable()
                 .Tolerance(4),
             OpCase{"OfOnePositionIsBeta",
                    "InstanceNorm",
                    {{{2, 2}, {1, 2, 3, 4}}, {{2}, {5, 6}}, {{2}, {7, 8}}},
                    {},
                    {{{2, 2}, {7, 8, 7, 8}}}}
                 .OnlyFloats()
                 .Tolerance(4),
             OpCase{"OfAnEmptyBatch", "InstanceNorm", {{{0, 2, 3}, {}}, {{2}, {5, 6}}, {{2}, {7, 8}}}, {}, {{{0, 2, 3}, {}}}},
         });

OP_CASES(GroupNorm, {
                        OpCase{"OfTwoGroups",
                               "GroupNorm",
                               {kX, {{2}, {1, 2}}, {{2}, {0.5, -1}}},
                               {{"num_groups", "2"}, {"eps", "0.125"}, {"output_mean_var", "True"}},
                               {{{2, 4, 3}, {-0.7119753, -0.024097426, 0.66378045,  1.3516583,   2.0395362,  -0.31890223,
                                             -1.493614,  0.2340351,    1.9616843,   -3.9616843,  -2.2340351, -0.50638596,
                                             0.86531707, 1.6728601,    -1.0958588,  -0.28831578, 0.51922721, 1.3267702,
                                             -3.4239506, -2.0481949,   -0.67243911, 0.70331663,  2.0790724,  -2.6378045}},
                                {{2, 2}, {-0.33333333, -0.25, 0.47916667, -0.083333333}},
                                {{2, 2}, {1.2720281, 1.0129371, 1.0835336, 1.2720281}}}}
                            .WithoutGradient(),
                        OpCase{"GradientOfTwoGroups", "GroupNorm", {kX, {{2}, {1, 2}}, {{2}, {0.5, -1}}}, {{"num_groups", "2"}}}
                            .TwiceDifferentiable()
                            .Tolerance(4),
                        OpCase{"GradientOfImages",
                               "GroupNorm",
                               {{{1, 4, 2, 2}, {1, 2, 3, 5, -1, 0, 2, 4, 1, 1, 0, 2, 3, 2, 7, 1}}, {{2}, {1, 2}}, {{2}, {0.5, -1}}},
                               {{"num_groups", "2"}}}
                            .TwiceDifferentiable()
                            .Tolerance(4),
                        OpCase{"OfVectorsAsOneGroup", "GroupNorm", {{{2, 3}, {1, 2, 4, 0, -1, 3}}, {{1}, {2}}, {{1}, {0.5}}}}
                            .TwiceDifferentiable()
                            .Tolerance(4),
                        OpCase{"OfAnEmptyBatch",
                               "GroupNorm",
                               {{{0, 2, 3}, {}}, {{2}, {5, 6}}, {{2}, {7, 8}}},
                               {{"num_groups", "2"}},
                               {{{0, 2, 3}, {}}}},
                    });

// The gradients in every type, for numbers whose squares float16 cannot hold, and whose sums bfloat16 cannot hold.
const std::vector<double> kLarge = {1024, -512, 256, 0, -1024, 2048, 512, 1536},
                          kSteep = {512, -256, 128, 1024, 256, 512, -256, 384};

OP_CASES(BackwardGroupNorm,
         {
             OpCase{"OfOneGroup",
                    "_backward_GroupNorm",
                    {{{2, 4}, kSteep}, {{2, 4}, kLarge}, {{1}, {2}}},
                    {},
                    {{{2, 4}, {-0.44340501, -1.330215, -0.88681001, 2.66043, 0.36369648, 0.27017453, -0.77415394, 0.14028293}},
                     {{1}, {1228.6306}},
                     {{1}, {2304}}}}
                 .OnlyFloats()
                 .Tolerance(4)
                 .WithoutGradient(),
             OpCase{"OfTwoGroups",
                    "_backward_GroupNorm",
                    {{{1, 4, 2}, kSteep}, {{1, 4, 2}, kLarge}, {{2}, {1, 2}}},
                    {{"num_groups", "2"}},
                    {{{1, 4, 2}, {-0.2217025, -0.66510751, -0.44340501, 1.330215, 0.36369648, 0.27017453, -0.77415394, 0.14028293}},
                     {{2}, {753.78851, 474.84213}},
                     {{2}, {1408, 896}}}}
                 .OnlyFloats()
                 .Tolerance(4)
                 .WithoutGradient(),
             OpCase{"OfChannels",
                    "_backward_InstanceNorm",
                    {{{1, 2, 4}, kSteep}, {{1, 2, 4}, kLarge}, {{2}, {1, 2}}},
                    {},
                    {{{1, 2, 4}, {-0.2217025, -0.66510751, -0.44340501, 1.330215, 0.36369648, 0.27017453, -0.77415394, 0.14028293}},
                     {{2}, {753.78851, 474.84213}},
                     {{2}, {1408, 896}}}}
                 .OnlyFloats()
                 .Tolerance(4)
                 .WithoutGradient(),
             OpCase{"OfSingleElements",
                    "_backward_InstanceNorm",
                    {{{2, 2}, {1, 2, 3, 4}}, {{2, 2}, {5, 6, 7, 8}}, {{2}, {1, 2}}},
                    {},
                    {{{2, 2}, {0, 0, 0, 0}}, {{2}, {0, 0}}, {{2}, {4, 6}}}}
                 .OnlyFloats()
                 .WithoutGradient(),
             OpCase{"OfLargeVectors",
                    "_backward_L2Normalization",
                    {{{1, 4}, {512, -256, 128, 1024}}, {{1, 4}, {2048, -1024, 512, 0}}},
                    {},
                    {{{1, 4}, {0, 0, 0, 0.43643578}}}}
                 .OnlyFloats()
                 .WithoutGradient(),
             OpCase{"OfSmallVectors",
                    "_backward_L2Normalization",
                    {{{1, 4}, {0x1p-8, 0x1p-7, 0x1p-8, -0x1p-10}}, {{1, 4}, {0x1p-13, -0x1p-14, 0, 0x1p-15}}},
                    {{"eps", "0"}},
                    {{{1, 4}, {29.26198, 55.198735, 27.93189, -6.65045}}}}
                 .OnlyFloats()
                 .Tolerance(4)
                 .WithoutGradient(),
         });

TEST(GroupNorm, RefusesGroupsThatDoNotFit) {
  const absl::Status status = ErrorOf("GroupNorm", {kX, {{3}, {1, 1, 1}}, {{3}, {0, 0, 0}}}, {{"num_groups", "3"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("multiple of num_groups, 3"), absl::string_view::npos) << status;
  EXPECT_FALSE(ErrorOf("InstanceNorm", {{{2}, {1, 2}}, {{2}, {1, 1}}, {{2}, {0, 0}}}).ok());
}

OP_CASES(
    L2Normalization,
    {
        OpCase{"OfSamples",
               "L2Normalization",
               {kX},
               {{"eps", "0.125"}},
               {{{2, 4, 3},
                 {-0.47577111, -0.25374459, -0.031718074, 0.19030844,  0.41233496,  -0.34889881, -0.1268723,  0.095154222,
                  0.31718074,  -0.44405304, -0.22202652,  0,           0.213498,    0.426996,    -0.30499714, -0.091499142,
                  0.12199886,  0.33549685,  -0.39649628,  -0.18299828, 0.030499714, 0.24399771,  0.45749571,  -0.27449743}}}}
            .TwiceDifferentiable(),
        OpCase{"OfChannels",
               "L2Normalization",
               {kX},
               {{"eps", "0.125"}, {"mode", "channel"}},
               {{{2, 4, 3},
                 {-0.68394113, -0.46265195, -0.065938047, 0.27357645,  0.75180941,  -0.72531852, -0.1823843,  0.17349448,
                  0.65938047,  -0.63834505, -0.40482045,  0,           0.40482045,  0.63834505,  -0.56704798, -0.17349448,
                  0.1823843,   0.62375277,  -0.75180941,  -0.27357645, 0.056704798, 0.46265195,  0.68394113,  -0.51034318}}}}
            .TwiceDifferentiable(),
        OpCase{"OfPositions",
               "L2Normalization",
               {kX},
               {{"eps", "0.125"}, {"mode", "spatial"}},
               {{{2, 4, 3},
                 {-0.86892667, -0.46342756, -0.057928445, 0.32830539,  0.71132835,  -0.60189322, -0.34684399, 0.26013299,
                  0.86710997,  -0.88017246, -0.44008623,  0,           0.37257241,  0.74514481,  -0.5322463,  -0.24174689,
                  0.32232919,  0.88640526,  -0.88866171,  -0.41015156, 0.068358593, 0.4114756,   0.77151675,  -0.46291005}}}}
            .TwiceDifferentiable(),
        OpCase{"OfAnEmptyBatch", "L2Normalization", {{{0, 2}, {}}}, {}, {{{0, 2}, {}}}},
        OpCase{"OfOneElementIsItsSign", "L2Normalization", {{{2, 1}, {-3, 5}}}, {{"eps", "0"}}, {{{2, 1}, {-1, 1}}}}.OnlyFloats(),
    });

OP_CASES(LRN, {
                  OpCase{"OfThreeChannels",
                         "LRN",
                         {kImage},
                         {{"nsize", "3"}, {"alpha", "0.5"}, {"beta", "0.5"}, {"knorm", "1.5"}},
                         {{{2, 4, 3, 1}, {-1.2700013,  -0.68895579, -0.092714554, 0.50321359,  1.1133772,   -0.95382097,
                                          -0.34132807, 0.25932185,  0.86765378,   -1.2216324,  -0.68097166, 0,
                                          0.68097166,  1.2216324,   -0.86765378,  -0.25932185, 0.34132807,  0.95382097,
                                          -1.1133772,  -0.50321359, 0.087762078,  0.68895579,  1.2700013,   -0.85941947}}}}
                      .TwiceDifferentiable(),
                  OpCase{"OfMoreChannelsThanThereAre",
                         "LRN",
                         {{{1, 2, 1, 1}, {3, 4}}},
                         {{"nsize", "5"}, {"alpha", "5"}, {"beta", "1"}, {"knorm", "0"}},
                         {{{1, 2, 1, 1}, {0.12, 0.16}}}}
                      .TwiceDifferentiable(),
                  OpCase{"OfOneChannel", "LRN", {kImage}, {{"nsize", "1"}}}.TwiceDifferentiable(),
              });

TEST(LRN, RefusesWhatDoesNotFit) {
  EXPECT_EQ(ErrorOf("LRN", {kImage}, {{"nsize", "4"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("LRN", {kX}, {{"nsize", "3"}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::testing::group_norm
