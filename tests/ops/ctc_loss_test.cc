// CTCLoss against the sum over all paths, and MXNet 1.9.1.

#include <cmath>
#include <limits>

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::ctc_loss {
namespace {

// (4 steps, 3 sequences, 5 classes), multiples of 1/8.
Numbers Data() {
  Numbers n = {{4, 3, 5}, {}};
  for (int64_t i = 0; i < 60; ++i) n.values.push_back((i * 7 % 31 - 15) / 8.0);
  return n;
}
const Numbers kLabel = {{3, 2}, {1, 2, 3, 3, 4, 0}};
const Numbers kLengthsOfData = {{3}, {3, 2, 4}};

OP_CASES(CTCLoss,
         {
             OpCase{"WithPadding",
                    "CTCLoss",
                    {Data(), kLabel},
                    {},
                    {{{3}, {5.6946178, 3.6747409, 6.1935266}},
                     {{4, 3, 5},
                      {-0.15482564,  -0.78455972, 0.10262606,  0.24618711,  0.59057219,  0.029436811, 0.10145234,   0.24337152,
                       -0.40332726,  0.029066583, -0.73407189, 0.10145234,  0.24337152,  0.58381793,  -0.1945699,   -0.066816078,
                       -0.33991513,  0.3105756,   0.028290422, 0.067865194, -0.71094662, 0.2368728,   0.56822831,   -0.16201968,
                       0.067865194,  -0.24205634, 0.53402062,  0.026587321, 0.063779668, -0.38233128, -0.30328933,  -0.0038595672,
                       -0.14725505,  0.13369245,  0.3207115,   -0.34305741, 0.023232263, 0.055731303, -0.056617656, 0.3207115,
                       -0.002735389, 0.042780906, 0.10262606,  0.24618711,  -0.38885869, -0.13036775, 0.10145234,   -0.5839691,
                       0.58381793,   0.029066583, 0.029436811, 0.10145234,  0.24337152,  -0.40332726, 0.029066583,  -0.49672343,
                       0.2368728,    0.56822831,  0.028290422, -0.3366681}}}}
                 .Indices({1})
                 .Tolerance(4),
             OpCase{"WithTheBlankLast",
                    "CTCLoss",
                    {Data(), {{3, 2}, {0, 1, 2, 2, -1, -1}}},
                    {{"blank_label", "last"}},
                    {{{3}, {4.9656325, 4.2960013, 8.6323823}}}}
                 .Indices({1})
                 .Tolerance(4),
             OpCase{"OfDataLengths",
                    "CTCLoss",
                    {Data(), kLabel, kLengthsOfData},
                    {{"use_data_lengths", "True"}},
                    {{{3}, {4.2878863, 0, 6.1935266}}}}
                 .Indices({1, 2})
                 .Tolerance(4),
             OpCase{"OfLabelLengths",
                    "CTCLoss",
                    {Data(), {{3, 3}, {1, 2, 3, 3, 3, 1, 4, 1, 1}}, {{3}, {1, 2, 0}}},
                    {{"use_label_lengths", "True"}},
                    {{{3}, {7.5931137, 3.6747409, 11.007382}}}}
                 .Indices({1, 2})
                 .Tolerance(4),
             OpCase{"OfBothLengths",
                    "CTCLoss",
                    {Data(), kLabel, kLengthsOfData, {{3}, {2, 1, 0}}},
                    {{"use_data_lengths", "True"}, {"use_label_lengths", "True"}}}
                 .Indices({1, 2, 3})
                 .Tolerance(4),
             OpCase{"OfOneStep", "CTCLoss", {{{1, 1, 2}, {0, 0}}, {{1, 1}, {1}}}, {}, {{{1}, {0.69314718}}}}.Indices({1}),
             OpCase{"OfNoSteps", "CTCLoss", {{{0, 1, 2}, {}}, {{1, 1}, {1}}}, {}, {{{1}, {0}}}}.Indices({1}),
             OpCase{"OfNoSequences", "CTCLoss", {{{2, 0, 2}, {}}, {{0, 1}, {}}}, {}, {{{0}, {}}}}.Indices({1}),
         });

// MXNet reads past the end of its memory instead.
TEST(CTCLoss, WhatIsNoClassOrLengthIsAnErrorThatNamesIt) {
  if (TestDevice().type == DeviceType::kGpu) GTEST_SKIP() << "a GPU makes the loss NaN";
  for (double bad : {5.0, -2.0, 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    const absl::Status status = ErrorOf("CTCLoss", {Data(), {{3, 2}, {1, 2, 3, bad, 4, 0}}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find("label 1 of sequence 1"), absl::string_view::npos) << status;
  }
  const absl::Status status = ErrorOf("CTCLoss", {Data(), kLabel, {{3}, {3, 2, 5}}}, {{"use_data_lengths", "True"}});
  EXPECT_NE(status.message().find("data_lengths of sequence 2"), absl::string_view::npos) << status;
  EXPECT_FALSE(ErrorOf("CTCLoss", {Data(), kLabel, {{3}, {3, 2, -1}}}, {{"use_label_lengths", "True"}}).ok());
}

TEST(CTCLoss, RefusesWhatDoesNotFit) {
  EXPECT_EQ(ErrorOf("CTCLoss", {Data(), {{2, 1}, {1, 1}}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf("CTCLoss", {{{1, 1, 1}, {0}}, {{1, 1}, {0}}}).code(), absl::StatusCode::kInvalidArgument);
  for (const char* alias : {"ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"}) {
    EXPECT_EQ(Op::Find(alias), Op::Find("CTCLoss"));
  }
}

// The states of all steps are more than any tensor has, and than 64 bits count: an error, before anything is allocated.
TEST(CTCLoss, RefusesSizesThatNoTensorHas) {
  const Op* op = Op::Find("CTCLoss");
  NodeAttrs attrs;
  ASSERT_TRUE(op->ParseAttrs(&attrs).ok());
  ShapeVector in = {{int64_t{1} << 32, 1, 2}, {1, (int64_t{1} << 31)}}, out = {{}, {}};
  const absl::Status status = (*op->GetAttr<FInferShape>("FInferShape"))(attrs, &in, &out).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("the states of all steps"), absl::string_view::npos) << status;
}

// Many steps have tiny probabilities; their logarithms are still right.
TEST(CTCLoss, LongSequencesDoNotUnderflow) {
  const int64_t steps = 2000;
  std::vector<HostTensor> inputs = {HostTensor::Of({{steps, 1, 3}, std::vector<double>(3 * steps, 0)}, DType::kFloat32),
                                    HostTensor::Of({{1, 1}, {1}}, DType::kFloat32)};
  const auto node = *TryMakeNode("CTCLoss", "y", {MakeVariable("x"), MakeVariable("label")}, {});
  const auto ys = OneByOne().Call(*node, &inputs);
  ASSERT_TRUE(ys.ok()) << ys.status();
  // The label is a run of ones: steps (steps + 1) / 2 paths, each with probability 3^-steps.
  const double want = steps * std::log(3.0) - std::log(steps * (steps + 1) / 2.0);
  EXPECT_NEAR((*ys)[0].values()[0], want, 1e-4 * want);
}

}  // namespace
}  // namespace gluond::testing::ctc_loss
