// Each loss against its formula, written out for two samples.

#include "engine/nn/loss.h"

#include <cmath>

#include "engine/runtime/executor.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {
namespace {

struct LossCase {
  const char* name;
  Spec loss;
  Shape label_shape;
  std::vector<float> label;
  std::vector<float> weight;  // Of samples; empty: none.
  std::vector<float> expected;
};

class LossTest : public ModelTest, public testing::WithParamInterface<LossCase> {};

// The prediction is always {{1, -2, 0.5}, {0, 3, -1}}.
TEST_P(LossTest, IsGluonsFormula) {
  const LossCase& c = GetParam();
  LossInputs inputs = {MakeVariable("p"), MakeVariable("y"), {}};
  if (!c.weight.empty()) inputs.sample_weight = MakeVariable("w");
  const auto loss = Losses().Make(c.loss.type, c.loss.attrs, inputs);
  ASSERT_OK(loss.status());
  Signatures known = {{"p", {{2, 3}, DType::kFloat32}}, {"y", {c.label_shape, DType::kFloat32}},
                      {"w", {{2, 1}, DType::kFloat32}}};
  auto executor = Executor::Compile(Graph{{*loss}}, known, {}, *lane_, *memory_);
  ASSERT_OK(executor.status());
  gluond::Run run = (*executor)->NewRun();
  run.inputs[static_cast<size_t>((*executor)->input_index("p"))] = Make<float>({2, 3}, {1, -2, 0.5, 0, 3, -1});
  run.inputs[static_cast<size_t>((*executor)->input_index("y"))] = Make<float>(c.label_shape, c.label);
  if (!c.weight.empty()) {
    run.inputs[static_cast<size_t>((*executor)->input_index("w"))] = Make<float>({2, 1}, c.weight);
  }
  std::vector<Tensor> outputs;
  ASSERT_OK((*executor)->RunAndWait(std::move(run), &outputs));
  ASSERT_EQ(outputs[0].shape(), Shape({2}));
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(outputs[0].data<float>()[i], c.expected[i], 1e-5) << i;
}

float LogSumExp(float a, float b, float c) { return std::log(std::exp(a) + std::exp(b) + std::exp(c)); }
const float kLse0 = LogSumExp(1, -2, 0.5), kLse1 = LogSumExp(0, 3, -1);
float SoftPlus(float x) { return std::log1p(std::exp(x)); }
const std::vector<float> kZeroOne = {1, 0, 1, 0, 1, 0};

INSTANTIATE_TEST_SUITE_P(Losses, LossTest, testing::ValuesIn<LossCase>({
    {"L1", {"L1Loss", {}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {}, {3.5f / 3, 4.0f / 3}},
    {"L1ReshapesTheLabel", {"L1Loss", {}}, {6}, {0, 0, 0, 0, 0, 0}, {}, {3.5f / 3, 4.0f / 3}},
    {"L1Weight", {"L1Loss", {{"weight", "2"}}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {1, 3}, {7.0f / 3, 8.0f}},
    {"L2IsHalfTheSquare", {"L2Loss", {}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {}, {5.25f / 6, 10.0f / 6}},
    {"SoftmaxCE", {"SoftmaxCrossEntropyLoss", {}}, {2}, {2, 1}, {}, {kLse0 - 0.5f, kLse1 - 3}},
    {"SoftmaxCEWeights", {"SoftmaxCrossEntropyLoss", {{"weight", "0.5"}}}, {2}, {2, 1}, {4, 0},
     {2 * (kLse0 - 0.5f), 0}},
    {"SoftmaxCEDense", {"SoftmaxCrossEntropyLoss", {{"sparse_label", "False"}}}, {2, 3}, {0.5, 0, 0.5, 0, 1, 0}, {},
     {kLse0 - 0.75f, kLse1 - 3}},
    {"SoftmaxCEFromLogits", {"SoftmaxCrossEntropyLoss", {{"from_logits", "True"}}}, {2}, {1, 0}, {}, {2, 0}},
    {"SigmoidBCE", {"SigmoidBinaryCrossEntropyLoss", {}}, {2, 3}, kZeroOne, {},
     {(SoftPlus(-1) + SoftPlus(-2) + SoftPlus(-0.5)) / 3, (SoftPlus(0) + SoftPlus(-3) + SoftPlus(-1)) / 3}},
    {"SigmoidBCEPosWeight", {"SigmoidBinaryCrossEntropyLoss", {{"pos_weight", "3"}}}, {2, 3}, kZeroOne, {},
     {(3 * SoftPlus(-1) + SoftPlus(-2) + 3 * SoftPlus(-0.5)) / 3, (SoftPlus(0) + 3 * SoftPlus(-3) + SoftPlus(-1)) / 3}},
    {"Huber", {"HuberLoss", {}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {}, {(0.5f + 1.5f + 0.125f) / 3, (0 + 2.5f + 0.5f) / 3}},
    {"HuberRho", {"HuberLoss", {{"rho", "2"}}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {},
     {(0.25f + 1 + 0.0625f) / 3, (0 + 2 + 0.25f) / 3}},
    {"Hinge", {"HingeLoss", {}}, {2, 3}, {1, -1, -1, 1, 1, 1}, {}, {1.5f / 3, (1 + 0 + 2) / 3.0f}},
    {"KLDivSumsOverASample", {"KLDivLoss", {}}, {2, 3}, {0.5, 0.5, 0, 1, 0, 0}, {},
     {std::log(0.5f) + 0.5f, 0}},
    {"KLDivFromScores", {"KLDivLoss", {{"from_logits", "False"}}}, {2, 3}, {0.5, 0.5, 0, 1, 0, 0}, {},
     {std::log(0.5f) + 0.5f + kLse0, kLse1}},
}), [](const auto& info) { return info.param.name; });

TEST_F(LossTest, SigmoidBCETakesProbabilities) {
  LossInputs inputs = {MakeVariable("p"), MakeVariable("y"), {}};
  const auto loss = Losses().Make("SigmoidBinaryCrossEntropyLoss",
                                  AttrDict{{"from_sigmoid", "True"}, {"pos_weight", "2"}}, inputs);
  ASSERT_OK(loss.status());
  const Signature signature = {{1, 2}, DType::kFloat32};
  auto executor = Executor::Compile(Graph{{*loss}}, {{"p", signature}, {"y", signature}}, {}, *lane_, *memory_);
  ASSERT_OK(executor.status());
  gluond::Run run = (*executor)->NewRun();
  run.inputs[static_cast<size_t>((*executor)->input_index("p"))] = Make<float>({1, 2}, {0.25, 0.5});
  run.inputs[static_cast<size_t>((*executor)->input_index("y"))] = Make<float>({1, 2}, {1, 0});
  std::vector<Tensor> outputs;
  ASSERT_OK((*executor)->RunAndWait(std::move(run), &outputs));
  EXPECT_NEAR(outputs[0].data<float>()[0], -(2 * std::log(0.25) + std::log(0.5)) / 2, 1e-5);
}

TEST(LossesTest, NameTheClosest) {
  const absl::Status status = Losses().Find("L2Los").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("'L2Loss'"), absl::string_view::npos);
}

}  // namespace
}  // namespace gluond
