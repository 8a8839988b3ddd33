// BatchNorm, LayerNorm and Dropout.

#include <cmath>

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::normalization {
namespace {

const Numbers kX = {{2, 3, 2}, {0, 0.25, 1, 2.25, 4, 6.25, 9, 12.25, 16, 20.25, 25, 30.25}};
const Numbers kGamma = {{3}, {1, 2, 0.5}}, kBeta = {{3}, {0, 1, -1}};
const Numbers kMovingMean = {{3}, {0, 0.5, 1}}, kMovingVar = {{3}, {1, 2, 0.5}};
const std::vector<Numbers> kInputs = {kX, kGamma, kBeta, kMovingMean, kMovingVar};

// Four images of three channels.
Numbers Images() {
  Numbers n = {{4, 3, 6, 5}, {}};
  for (int64_t i = 0; i < n.shape.Size(); ++i) n.values.push_back((i * 7 % 31 - 15) / 8.0);
  return n;
}

OP_CASES(
    BatchNorm,
    {
        OpCase{"OfTheBatch",
               "BatchNorm",
               kInputs,
               {{"fix_gamma", "False"}, {"output_mean_var", "True"}},
               {{{2, 3, 2},
                 {-0.99998269, -0.95347187, -1.113745, -0.81603446, -1.5413454, -1.4429189, 0.67440693, 1.2790476, 2.4587818,
                  3.4709977, -0.62269868, -0.39303701}},
                {{3}, {5.375, 9.875, 16.375}},
                {{3}, {0.18604329, 0.11908423, 0.08749016}}}}
            .Constant({3, 4})
            .Tolerance(4)
            .WithoutGradient(),
        OpCase{"GradientOfTheBatch", "BatchNorm", kInputs, {{"fix_gamma", "False"}}}.Constant({3, 4}).Tolerance(4),
        OpCase{"WithGammaFixedToOne",
               "BatchNorm",
               kInputs,
               {},
               {{{2, 3, 2},
                 {-0.99998269, -0.95347187, -0.056872512, 0.091982771, -2.0826907, -1.8858379, 0.67440693, 1.2790476, 1.7293909,
                  2.2354989, -0.24539737, 0.21392598}}}}
            .Constant({3, 4})
            .Tolerance(4),
        OpCase{"PredictingByTheRunningStatistics",
               "BatchNorm",
               kInputs,
               {{"fix_gamma", "False"}},
               {{{2, 3, 2},
                 {0, 0.24987509, 1.7069301, 3.4742552, 1.1192022, 2.7086038, 8.9955034, 12.24388, 22.914832, 28.923738, 15.953618,
                  19.662221}}}}
            .Constant({3, 4})
            .Predicting()
            .Tolerance(4),
        OpCase{"TrainingByTheRunningStatistics", "BatchNorm", kInputs, {{"use_global_stats", "True"}, {"fix_gamma", "False"}}}
            .Constant({3, 4})
            .Tolerance(4),
        OpCase{"OfTheLastAxis",
               "BatchNorm",
               {{{4, 2}, {1, 2, 3, 5, 0, 1, 7, 2}}, {{2}, {1, 2}}, {{2}, {0, 1}}, {{2}, {0, 0}}, {{2}, {1, 1}}},
               {{"axis", "-1"}, {"fix_gamma", "False"}}}
            .Constant({3, 4})
            .Tolerance(4),
        OpCase{"OfTheFirstAxis",
               "BatchNorm",
               {kX, {{2}, {1, 2}}, {{2}, {0, 1}}, {{2}, {0, 0}}, {{2}, {1, 1}}},
               {{"axis", "0"}, {"fix_gamma", "False"}}}
            .Constant({3, 4})
            .Tolerance(4),
        OpCase{"OfImages", "BatchNorm", {Images(), kGamma, kBeta, kMovingMean, kMovingVar}, {{"fix_gamma", "False"}}}
            .Constant({3, 4})
            .Tolerance(4),
        OpCase{"WithoutEps", "BatchNorm", kInputs, {{"eps", "0"}}}.Constant({3, 4}).Tolerance(4),
        OpCase{"PredictingWithGammaFixedToOne", "BatchNorm", kInputs, {}}.Constant({3, 4}).Predicting().Tolerance(4),
        OpCase{"PredictingOverTheLastAxis",
               "BatchNorm",
               {{{2, 3}, {1, 2, 4, 0, -1, 3}}, kGamma, kBeta, kMovingMean, kMovingVar},
               {{"axis", "-1"}}}
            .Constant({3, 4})
            .Predicting()
            .Tolerance(4),
        // The variance of one element is 0; it has no unbiased one.
        OpCase{
            "OfOneElement", "BatchNorm", {{{1, 3}, {5, 6, 7}}, kGamma, kBeta, kMovingMean, kMovingVar}, {}, {{{1, 3}, {0, 1, -1}}}}
            .Constant({3, 4}),
        OpCase{"OfAnEmptyBatch", "BatchNorm", {{{0, 3}, {}}, kGamma, kBeta, kMovingMean, kMovingVar}, {}, {{{0, 3}, {}}}}.Constant(
            {3, 4}),
        // Models have data of 16 bits beside parameters of float32.
        OpCase{"WithFloat32Parameters", "BatchNorm", kInputs, {{"fix_gamma", "False"}}}.Indices({1, 2, 3, 4}).Tolerance(4),
        OpCase{"WithFloat32ParametersAndGammaFixedToOne", "BatchNorm", kInputs, {}}.Indices({1, 2, 3, 4}).Tolerance(4),
        OpCase{"PredictingWithFloat32Parameters", "BatchNorm", kInputs, {{"fix_gamma", "False"}}}
            .Indices({1, 2, 3, 4})
            .Predicting()
            .Tolerance(4),
    });

// The gradients in every type; GradientMatchesDifferences looks at float64 only. The statistics are kX's.
const Numbers kSlopes = {{2, 3, 2}, {1, -0.5, 2, 0.25, -1, 3, 0.5, -2, 1, 1.5, -0.25, 2}};
const std::vector<Numbers> kBackwardInputs = {
    kSlopes, kX, kGamma, {{3}, {5.375, 9.875, 16.375}}, {{3}, {0.18604329, 0.11908423, 0.08749016}}};

OP_CASES(BackwardBatchNorm,
         {
             OpCase{"OfTheBatch", "_backward_BatchNorm", kBackwardInputs, {{"fix_gamma", "False"}}}.OnlyFloats().Tolerance(4),
             OpCase{"WithFloat32Parameters", "_backward_BatchNorm", kBackwardInputs, {{"fix_gamma", "False"}}}
                 .Indices({2, 3, 4})
                 .OnlyFloats()
                 .Tolerance(4),
             OpCase{"WithGammaFixedToOne", "_backward_BatchNorm", kBackwardInputs, {}}.Indices({2, 3, 4}).OnlyFloats().Tolerance(4),
             OpCase{"ByTheRunningStatistics", "_backward_BatchNorm", kBackwardInputs, {{"use_global_stats", "True"}}}
                 .OnlyFloats()
                 .Tolerance(4),
             OpCase{"OfTheLastAxis",
                    "_backward_BatchNorm",
                    {{{4, 1}, {1, 2, -3, 5}}, {{4, 1}, {0, 1, 2, 3}}, {{1}, {2}}, {{1}, {1.5}}, {{1}, {0.8940697}}},
                    {{"axis", "-1"}, {"fix_gamma", "False"}}}
                 .Indices({2, 3, 4})
                 .OnlyFloats()
                 .Tolerance(4),
         });

OP_CASES(
    LayerNorm,
    {
        OpCase{"OfRows",
               "LayerNorm",
               {{{2, 3}, {1, 2, 4, 0, -1, 3}}, kGamma, kBeta},
               {{"output_mean_var", "True"}},
               {{{2, 3}, {-1.0690415, 0.46547923, -0.33184904, -0.39223159, -0.96115796, -0.31359472}},
                {{2, 1}, {2.3333333, 0.66666667}},
                {{2, 1}, {1.2472231, 1.6996761}}}}
            .WithoutGradient(),
        OpCase{"GradientOfRows", "LayerNorm", {{{2, 3}, {1, 2, 4, 0, -1, 3}}, kGamma, kBeta}, {}}.TwiceDifferentiable().Tolerance(
            4),
        OpCase{"OfColumns",
               "LayerNorm",
               {{{2, 3}, {1, 2, 4, 0, -1, 3}}, {{2}, {1, 2}}, {{2}, {0.5, 0}}},
               {{"axis", "0"}, {"eps", "0.25"}}}
            .TwiceDifferentiable()
            .Tolerance(4),
        OpCase{"OfRowsBesideVectors",
               "LayerNorm",
               {{{2, 19}, {0,  3.5, 1.5, 5, 3, 1,  4.5, 2.5, 0.5, 4, 2, 0, 3.5, 1.5, 5,  3, 1, 4.5, 2.5,
                           -2, 1,   4,   0, 3, -1, 2,   -2,  1,   4, 0, 3, -1,  2,   -2, 1, 4, 0,   3}},
                {{19}, {1, 1.5, 2, 1, 1.5, 2, 1, 1.5, 2, 1, 1.5, 2, 1, 1.5, 2, 1, 1.5, 2, 1}},
                {{19}, {-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1}}},
               {},
               {{{2, 19}, {-2.5985602, 0.8899201,  -0.31840015, 3.5326402,  -0.57975995,  -1.9446402,  2.2195201, 1.95056,
                           -3.5708803, 0.9064001,  0.48087994,  -1.1971204, -0.40671993,  -0.98880011, 4.0652803, 2.28016,
                           -2.4584802, 2.4390403,  0.96704,     -2.4975518, -0.038729787, 3.8918241,   1.4836028, 0.43300211,
                           -2.0139489, 1.4647574,  -0.24632764, -1.0516397, 1.445912,     0.22540426,  3.9106695, -2.0069745,
                           0.69713616, -1.9951035, 1.9741801,   1.1688681,  -1.0327943,   1.9553347}}}}
            .OnlyFloats()
            .Tolerance(4),
        OpCase{"OfSingleElements", "LayerNorm", {{{3, 1}, {1, -2, 4}}, {{1}, {2}}, {{1}, {0.5}}}, {}, {{{3, 1}, {0.5, 0.5, 0.5}}}},
        OpCase{"OfAnEmptyBatch", "LayerNorm", {{{0, 3}, {}}, kGamma, kBeta}, {}, {{{0, 3}, {}}}},
        OpCase{"OfEmptyRows", "LayerNorm", {{{2, 0}, {}}, {{0}, {}}, {{0}, {}}}, {}, {{{2, 0}, {}}}},
    });

// The gradient in every type, for numbers whose squares float16 cannot hold, and whose sums bfloat16 cannot hold.
const std::vector<double> kLarge = {1024, -512, 256, 0, -1024, 2048, 512, 1536},
                          kSteep = {512, -256, 128, 1024, 256, 512, -256, 384};

OP_CASES(BackwardLayerNorm,
         {
             OpCase{"OfRows",
                    "_backward_LayerNorm",
                    {{{2, 4}, kSteep}, {{2, 4}, kLarge}, {{4}, {1, 2, 0.5, 1}}},
                    {},
                    {{{2, 4}, {-0.29252414, -0.80059237, -0.4310882, 1.5242047, 0.21821789, 0.31173984, -0.3896748, -0.14028293}},
                     {{4}, {377.52222, 883.80147, 70.643947, -103.337}},
                     {{4}, {768, 256, -128, 1408}}}}
                 .OnlyFloats()
                 .Tolerance(4)
                 .WithoutGradient(),
             OpCase{"OfColumns",
                    "_backward_LayerNorm",
                    {{{4, 2}, kSteep}, {{4, 2}, kLarge}, {{4}, {1, 2, 0.5, 1}}},
                    {{"axis", "0"}},
                    {{{4, 2}, {0.36734513, -0.987976, 0.11960074, 1.2626119, 0.10251492, -0.16406822, -0.5894608, -0.11056771}},
                     {{4}, {875.00015, -734.21262, 208.3321, 170.83286}},
                     {{4}, {256, 1152, 768, 128}}}}
                 .OnlyFloats()
                 .Tolerance(4)
                 .WithoutGradient(),
         });

std::vector<HostTensor> Tensors(const std::vector<Numbers>& numbers, DType type) {
  std::vector<HostTensor> tensors;
  for (const Numbers& n : numbers) tensors.push_back(HostTensor::Of(n, type));
  return tensors;
}

NodePtr NodeOf(const char* op, size_t inputs, const AttrDict& attrs) {
  std::vector<NodeEntry> xs;
  for (size_t i = 0; i < inputs; ++i) xs.push_back(MakeVariable(absl::StrCat("x", i)));
  return *TryMakeNode(op, "y", xs, attrs);
}

// moving = 0.9 moving + 0.1 batch, with the biased variance, in the forward pass.
TEST(BatchNorm, TrainingMovesTheRunningStatistics) {
  std::vector<HostTensor> inputs = Tensors(kInputs, DType::kFloat64);
  ASSERT_TRUE(OneByOne(true).Call(*NodeOf("BatchNorm", 5, {}), &inputs).ok());
  const std::vector<double> mean = inputs[3].values(), var = inputs[4].values();
  const double want_mean[] = {0.5375, 1.4375, 2.5375}, want_var[] = {3.7890625, 8.8515625, 13.5140625};
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(mean[c], want_mean[c], 1e-12);
    EXPECT_NEAR(var[c], want_var[c], 1e-12);
  }
}

TEST(BatchNorm, PredictingAndGlobalStatisticsMoveNothing) {
  for (const bool is_train : {false, true}) {
    std::vector<HostTensor> inputs = Tensors(kInputs, DType::kFloat64);
    const AttrDict attrs = is_train ? AttrDict{{"use_global_stats", "True"}} : AttrDict{};
    ASSERT_TRUE(OneByOne(is_train).Call(*NodeOf("BatchNorm", 5, attrs), &inputs).ok());
    EXPECT_EQ(inputs[3].values(), kMovingMean.values);
    EXPECT_EQ(inputs[4].values(), kMovingVar.values);
  }
}

TEST(BatchNorm, ParametersOf16BitDataAreFloat32) {
  const auto infer = *Op::Find("BatchNorm")->GetAttr<FInferType>("FInferType");
  TypeVector in(5, DType::kUnknown), out(3, DType::kUnknown);
  in[0] = DType::kFloat16;
  EXPECT_TRUE(infer(NodeOf("BatchNorm", 5, {})->attrs, &in, &out).value());
  EXPECT_EQ(in[1], DType::kFloat32);
  EXPECT_EQ(out[0], DType::kFloat16);
}

OP_CASES(Dropout, {
                      OpCase{"IsTheIdentityWhenPredicting", "Dropout", {kX}, {}, {kX}}.Predicting(),
                      OpCase{"OfNothingIsTheIdentity", "Dropout", {kX}, {{"p", "0"}}, {kX}}.TwiceDifferentiable(),
                      OpCase{"GradientOfAMask", "Dropout", {kX}, {{"p", "0.5"}}}.TwiceDifferentiable(),
                      OpCase{"GradientOfASharedMask", "Dropout", {kX}, {{"p", "0.5"}, {"axes", "(1,)"}}}.TwiceDifferentiable(),
                  });

TEST(Dropout, KeepsThePartThatItShould) {
  const int64_t n = 10000;
  std::vector<HostTensor> x = Tensors({{{n}, std::vector<double>(n, 1)}}, DType::kFloat32);
  const auto ys = OneByOne(true).Call(*NodeOf("Dropout", 1, {{"p", "0.25"}}), &x);
  ASSERT_TRUE(ys.ok()) << ys.status();
  EXPECT_EQ((*ys)[0].values(), (*ys)[1].values());  // The input is ones, so that the output is the mask.
  int kept = 0;
  for (double v : (*ys)[0].values()) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0 / 3) < 1e-6) << v;
    kept += v != 0;
  }
  EXPECT_NEAR(kept, 7500, 200);
}

TEST(Dropout, SharesTheMaskAlongAxes) {
  std::vector<HostTensor> x = Tensors({{{50, 4}, std::vector<double>(200, 1)}}, DType::kFloat32);
  const auto ys = OneByOne(true).Call(*NodeOf("Dropout", 1, {{"axes", "(1,)"}}), &x);
  ASSERT_TRUE(ys.ok()) << ys.status();
  const std::vector<double> y = (*ys)[0].values();
  EXPECT_EQ((*ys)[1].shape, Shape({50, 1}));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(y[i], (*ys)[1].values()[i / 4]);
}

TEST(Dropout, AlwaysMeansAlways) {
  std::vector<HostTensor> x = Tensors({{{100}, std::vector<double>(100, 1)}}, DType::kFloat32);
  const auto ys = OneByOne(false).Call(*NodeOf("Dropout", 1, {{"mode", "always"}}), &x);
  ASSERT_TRUE(ys.ok()) << ys.status();
  EXPECT_NE((*ys)[0].values(), std::vector<double>(100, 1));
}

}  // namespace
}  // namespace gluond::testing::normalization
