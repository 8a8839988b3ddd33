// softmax and its relatives, by formula; SoftmaxOutput's gradient, which is no derivative, by a formula of its own.

#include <cmath>
#include <limits>

#include "engine/core/elementwise.h"
#include "engine/passes/gradient.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::softmax {
namespace {

const Numbers kX = {{2, 3}, {1, 2, 3, 0.5, -1, 2}};

OP_CASES(
    Softmax,
    {
        OpCase{"SumsToOne", "softmax", {{{4}, {0, 0, 0, 0}}}, {}, {{{4}, {0.25, 0.25, 0.25, 0.25}}}},
        OpCase{
            "ByRows", "softmax", {kX}, {}, {{{2, 3}, {0.090030573, 0.24472847, 0.66524096, 0.17529039, 0.039112573, 0.78559703}}}}
            .TwiceDifferentiable(),
        OpCase{"ByColumns",
               "softmax",
               {kX},
               {{"axis", "0"}},
               {{{2, 3}, {0.62245933, 0.95257413, 0.73105858, 0.37754067, 0.047425873, 0.26894142}}}}
            .TwiceDifferentiable(),
        OpCase{"Warm",
               "softmax",
               {kX},
               {{"temperature", "2"}},
               {{{2, 3}, {0.18632372, 0.30719589, 0.50648039, 0.27860069, 0.13160165, 0.58979766}}}}
            .TwiceDifferentiable(),
        OpCase{"IgnoresACommonShift", "softmax", {{{1, 2}, {128, 129}}}, {}, {{{1, 2}, {0.26894142, 0.73105858}}}},
        OpCase{"OfARowBesideVectors",
               "softmax",
               {{{1, 19}, {0, 3.5, 1.5, 5, 3, 1, 4.5, 2.5, 0.5, 4, 2, 0, 3.5, 1.5, 5, 3, 1, 4.5, 2.5}}},
               {},
               {{{1, 19},
                 {0.0014541998, 0.048156484, 0.0065172713, 0.21582239, 0.029208384, 0.0039529249, 0.13090289, 0.01771578,
                  0.0023975701, 0.079396619, 0.010745164, 0.0014541998, 0.048156484, 0.0065172713, 0.21582239, 0.029208384,
                  0.0039529249, 0.13090289, 0.01771578}}}},
        OpCase{"OfSingleElements", "softmax", {{{3, 1}, {1, -2, 1000}}}, {}, {{{3, 1}, {1, 1, 1}}}},
        OpCase{"OfAnEmptyBatch", "softmax", {{{0, 3}, {}}}, {}, {{{0, 3}, {}}}},
        OpCase{"OfEmptyRows", "softmax", {{{2, 0}, {}}}, {}, {{{2, 0}, {}}}},
        OpCase{"Logarithm",
               "log_softmax",
               {kX},
               {},
               {{{2, 3}, {-2.407606, -1.407606, -0.40760596, -1.7413113, -3.2413113, -0.2413113}}}}
            .TwiceDifferentiable(),
        OpCase{"WarmLogarithmByColumns", "log_softmax", {kX}, {{"axis", "-2"}, {"temperature", "2"}}}.TwiceDifferentiable(),
        OpCase{"OfTheNegative",
               "softmin",
               {kX},
               {},
               {{{2, 3}, {0.66524096, 0.24472847, 0.090030573, 0.17529039, 0.78559703, 0.039112573}}}}
            .TwiceDifferentiable(),
        OpCase{"WarmNegative", "softmin", {kX}, {{"temperature", "0.5"}}}.TwiceDifferentiable(),
        OpCase{"CrossEntropy", "softmax_cross_entropy", {kX, {{2}, {2, 0}}}, {}, {{{1}, {2.1489173}}}}.Indices({1}),
        OpCase{"Output",
               "SoftmaxOutput",
               {kX, {{2}, {2, 0}}},
               {},
               {{{2, 3}, {0.090030573, 0.24472847, 0.66524096, 0.17529039, 0.039112573, 0.78559703}}}}
            .Indices({1})
            .WithoutGradient(),
        OpCase{"OutputAlongAxisOne",
               "SoftmaxOutput",
               {{{2, 2, 1}, {0, 0, 1, 1}}, {{2, 1}, {0, 1}}},
               {{"multi_output", "True"}},
               {{{2, 2, 1}, {0.5, 0.5, 0.5, 0.5}}}}
            .Indices({1})
            .WithoutGradient(),
    });

const Numbers kWide = {{1, 3, 4}, {-1.875, -1, -0.125, 0.75, 1.625, -1.375, -0.5, 0.375, 1.25, -1.75, -0.875, 0}};
const Numbers kLengths = {{1, 4}, {1, 2, 3, 0}};
const AttrDict kOfLengths = {{"use_length", "True"}, {"axis", "1"}};

// As MXNet's softmax; it has no log_softmax with lengths.
OP_CASES(SoftmaxOfLengths,
         {
             OpCase{"Softmax",
                    "softmax",
                    {kWide, kLengths},
                    kOfLengths,
                    {{{1, 3, 4}, {1, 0.5926666, 0.46303674, 0, 0, 0.4073334, 0.31824019, 0, 0, 0, 0.21872307, 0}}}}
                 .Indices({1})
                 .TwiceDifferentiable(),
             OpCase{"Logarithm",
                    "log_softmax",
                    {kWide, kLengths},
                    kOfLengths,
                    {{{1, 3, 4}, {0, -0.52312326, -0.76994887, 0, 0, -0.89812326, -1.1449489, 0, 0, 0, -1.5199489, 0}}}}
                 .Indices({1})
                 .TwiceDifferentiable(),
             OpCase{"WarmNegativeOfOneRow",
                    "softmin",
                    {{{3}, {0, -1000, 1}}, {{1}, {2}}},
                    {{"use_length", "True"}, {"temperature", "2000"}},
                    {{{3}, {0.37754067, 0.62245933, 0}}}}
                 .Indices({1})
                 .TwiceDifferentiable(),
             OpCase{"Mask", "_length_mask", {kWide, kLengths}, {{"axis", "1"}}, {{{1, 3, 4}, {1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0}}}}
                 .Indices({1}),
         });

OP_CASES(SoftmaxActivation,
         {
             OpCase{
                 "OfSamples",
                 "SoftmaxActivation",
                 {{{2, 2, 2}, {-1.875, -1, -0.125, 0.75, 1.625, -1.375, -0.5, 0.375}}},
                 {},
                 {{{2, 2, 2}, {0.043557702, 0.1044895, 0.25065727, 0.60129553, 0.68694301, 0.034200879, 0.082043643, 0.19681247}}}}
                 .TwiceDifferentiable(),
             OpCase{"OfChannels",
                    "SoftmaxActivation",
                    {{{2, 2, 2}, {-1.875, -1, -0.125, 0.75, 1.625, -1.375, -0.5, 0.375}}},
                    {{"mode", "channel"}},
                    {{{2, 2, 2}, {0.1480472, 0.1480472, 0.8519528, 0.8519528, 0.89330941, 0.1480472, 0.10669059, 0.8519528}}}}
                 .TwiceDifferentiable(),
             OpCase{"OfAnEmptyBatch", "SoftmaxActivation", {{{0, 2}, {}}}, {}, {{{0, 2}, {}}}},
         });

// dx of SoftmaxOutput, for the head gradient `head` in every element.
std::vector<double> OutputGradient(const Numbers& x, const Numbers& label, const AttrDict& attrs, double head = 5) {
  const NodeEntry xs = MakeVariable("x"), labels = MakeVariable("label"), dy = MakeVariable("dy");
  const absl::StatusOr<NodePtr> node = TryMakeNode("SoftmaxOutput", "y", {xs, labels}, attrs);
  EXPECT_TRUE(node.ok()) << node.status();
  const Gradients dx = *(*(*node)->op()->GetAttr<FGradient>("FGradient"))(*node, {dy});
  const Numbers heads = {x.shape, std::vector<double>(x.values.size(), head)};
  const auto values = OneByOne().Evaluate({dx[0]}, {{"x", HostTensor::Of(x, DType::kFloat64)},
                                                    {"label", HostTensor::Of(label, DType::kFloat32)},
                                                    {"dy", HostTensor::Of(heads, DType::kFloat64)}});
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? (*values)[0].values() : std::vector<double>();
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-7) << "element " << i;
}

const std::vector<double> kGradient = {0.090030573, 0.24472847, -0.33475904, -0.82470961, 0.039112573, 0.78559703};
std::vector<double> Times(double factor, std::vector<double> v) {
  for (double& x : v) x *= factor;
  return v;
}

TEST(SoftmaxOutput, GradientIgnoresTheHeadGradient) { ExpectNear(OutputGradient(kX, {{2}, {2, 0}}, {}), kGradient); }
TEST(SoftmaxOutput, GradientIsScaled) {
  ExpectNear(OutputGradient(kX, {{2}, {2, 0}}, {{"grad_scale", "3"}}), Times(3, kGradient));
  ExpectNear(OutputGradient(kX, {{2}, {2, 0}}, {{"normalization", "batch"}}), Times(0.5, kGradient));
  ExpectNear(OutputGradient(kX, {{2}, {2, 0}}, {{"out_grad", "True"}}), Times(5, kGradient));
}
TEST(SoftmaxOutput, IgnoredLabelsHaveNoGradient) {
  std::vector<double> want = kGradient;
  for (int i = 3; i < 6; ++i) want[i] = 0;
  ExpectNear(OutputGradient(kX, {{2}, {2, -1}}, {{"use_ignore", "True"}}), want);
  // One of the two labels counts.
  ExpectNear(OutputGradient(kX, {{2}, {2, -1}}, {{"use_ignore", "True"}, {"normalization", "valid"}}), want);
  ExpectNear(OutputGradient(kX, {{2}, {2, 0}}, {{"use_ignore", "True"}, {"normalization", "valid"}}), Times(0.5, kGradient));
}
TEST(SoftmaxOutput, LabelsCanBeSmoothed) {
  ExpectNear(OutputGradient(kX, {{2}, {2, 0}}, {{"smooth_alpha", "0.3"}}),
             {-0.059969427, 0.094728471, -0.034759044, -0.52470961, -0.11088743, 0.63559703});
}
TEST(SoftmaxOutput, LabelsCanBeProbabilities) { ExpectNear(OutputGradient(kX, {{2, 3}, {0, 0, 1, 1, 0, 0}}, {}), kGradient); }
TEST(SoftmaxOutput, RowsCanLieAlongAxisOne) {
  const Numbers x = {{1, 3, 2}, {1, 0.5, 2, -1, 3, 2}};  // kX transposed.
  std::vector<double> want = {kGradient[0], kGradient[3], kGradient[1], kGradient[4], kGradient[2], kGradient[5]};
  ExpectNear(OutputGradient(x, {{1, 2}, {2, 0}}, {{"multi_output", "True"}}), Times(0.5, want));
  ExpectNear(OutputGradient(x, {{1, 2}, {2, 0}}, {{"multi_output", "True"}, {"normalization", "valid"}}), Times(0.5, want));
}
TEST(SoftmaxOutput, RowsCanLieAlongTheLastAxis) {
  ExpectNear(OutputGradient({{1, 2, 3}, kX.values}, {{1, 2}, {2, 0}}, {{"preserve_shape", "True"}}), kGradient);
}

// Head gradients of padding may be anything, also NaN.
TEST(Softmax, GradientDoesNotLookAtPadding) {
  for (const char* op : {"softmax", "log_softmax"}) {
    const NodeEntry x = MakeVariable("x"), length = MakeVariable("length"), dy = MakeVariable("dy");
    const NodePtr node = *TryMakeNode(op, "y", {x, length}, {{"use_length", "True"}});
    const Gradients dx = *BuildGradient({{node, 0}}, {x}, {dy});
    const auto gradient = [&](double padding) {
      return (*OneByOne().Evaluate(dx,
                                   {{"x", HostTensor::Of({{2, 3}, {1, 2, 0, 4, 1, 1}}, DType::kFloat64)},
                                    {"length", HostTensor::Of({{2}, {2, 1}}, DType::kFloat32)},
                                    {"dy", HostTensor::Of({{2, 3}, {1, 3, padding, 2, padding, padding}}, DType::kFloat64)}}))[0]
          .values();
    };
    EXPECT_EQ(gradient(std::numeric_limits<double>::quiet_NaN()), gradient(0)) << op;
  }
}

TEST(LengthMask, HasALengthForEachRow) {
  EXPECT_EQ(ErrorOf("_length_mask", {kWide, {{2}, {1, 2}}}, {{"axis", "1"}}).code(), absl::StatusCode::kInvalidArgument);
}

// A label that is no class never reads or writes outside the row.
TEST(Labels, WhatIsNoClassIsAnErrorThatNamesIt) {
  if (TestDevice().type == DeviceType::kGpu) GTEST_SKIP() << "a GPU makes the loss NaN";
  for (double bad : {3.0, -1.0, 1e30, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const absl::Status status = ErrorOf("softmax_cross_entropy", {kX, {{2}, {0, bad}}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find("label 1 is"), absl::string_view::npos) << status;
    EXPECT_EQ(ErrorOf("_backward_SoftmaxOutput", {kX, {{2}, {0, bad}}}).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace gluond::testing::softmax
