// Each loss against its formula, written out for two samples.

#include "engine/nn/loss.h"

#include <cmath>
#include <limits>

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

class LossTest : public ModelTest, public testing::WithParamInterface<LossCase> {
 protected:
  // `weight`: of samples; undefined: none.
  absl::StatusOr<Tensor> Loss(const Spec& spec, const Tensor& prediction, const Tensor& label, const Tensor& weight = {}) {
    LossInputs inputs = {MakeVariable("p"), MakeVariable("y"), {}};
    std::vector<std::pair<const char*, Tensor>> values = {{"p", prediction}, {"y", label}};
    if (weight.defined()) {
      inputs.sample_weight = MakeVariable("w");
      values.push_back({"w", weight});
    }
    ASSIGN_OR_RETURN(const NodeEntry loss, Losses().Make(spec.type, spec.attrs, inputs));
    Signatures known;
    for (const auto& [name, value] : values) known[name] = {value.shape(), value.dtype()};
    ASSIGN_OR_RETURN(const auto executor, Executor::Compile(Graph{{loss}}, known, {}, *lane_, *memory_));
    gluond::Run run = executor->NewRun();
    for (const auto& [name, value] : values) {
      run.inputs[static_cast<size_t>(executor->input_index(name))] = value;
    }
    std::vector<Tensor> outputs;
    RETURN_IF_ERROR(executor->RunAndWait(std::move(run), &outputs));
    return outputs[0];
  }
  void ExpectLoss(const absl::StatusOr<Tensor>& loss, const std::vector<float>& expected) {
    ASSERT_OK(loss.status());
    ASSERT_EQ(loss->shape(), Shape({static_cast<int64_t>(expected.size())}));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(loss->data<float>()[i], expected[i], 1e-5) << i;
  }
};

const std::vector<float> kPrediction = {1, -2, 0.5, 0, 3, -1};

TEST_P(LossTest, IsGluonsFormula) {
  const LossCase& c = GetParam();
  const Tensor weight = c.weight.empty() ? Tensor() : Make<float>({2, 1}, c.weight);
  ExpectLoss(Loss(c.loss, Make<float>({2, 3}, kPrediction), Make<float>(c.label_shape, c.label), weight), c.expected);
}

float LogSumExp(float a, float b, float c) { return std::log(std::exp(a) + std::exp(b) + std::exp(c)); }
const float kLse0 = LogSumExp(1, -2, 0.5), kLse1 = LogSumExp(0, 3, -1);
float SoftPlus(float x) { return std::log1p(std::exp(x)); }
// KL divergence of (0.7, 0.3) from a row of similarities (0, -distance).
float SmoothedDistances(float distance) { return 0.7f * std::log(0.7f) + 0.3f * (std::log(0.3f) + distance); }
const std::vector<float> kZeroOne = {1, 0, 1, 0, 1, 0};

INSTANTIATE_TEST_SUITE_P(
    Losses, LossTest,
    testing::ValuesIn<LossCase>({
        {"L1", {"L1Loss", {}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {}, {3.5f / 3, 4.0f / 3}},
        {"L1ReshapesTheLabel", {"L1Loss", {}}, {6}, {0, 0, 0, 0, 0, 0}, {}, {3.5f / 3, 4.0f / 3}},
        {"L1Weight", {"L1Loss", {{"weight", "2"}}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {1, 3}, {7.0f / 3, 8.0f}},
        {"L2IsHalfTheSquare", {"L2Loss", {}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {}, {5.25f / 6, 10.0f / 6}},
        {"SoftmaxCE", {"SoftmaxCrossEntropyLoss", {}}, {2}, {2, 1}, {}, {kLse0 - 0.5f, kLse1 - 3}},
        {"SoftmaxCEWeights", {"SoftmaxCrossEntropyLoss", {{"weight", "0.5"}}}, {2}, {2, 1}, {4, 0}, {2 * (kLse0 - 0.5f), 0}},
        {"SoftmaxCEDense",
         {"SoftmaxCrossEntropyLoss", {{"sparse_label", "False"}}},
         {2, 3},
         {0.5, 0, 0.5, 0, 1, 0},
         {},
         {kLse0 - 0.75f, kLse1 - 3}},
        {"SoftmaxCEFromLogits", {"SoftmaxCrossEntropyLoss", {{"from_logits", "True"}}}, {2}, {1, 0}, {}, {2, 0}},
        {"SigmoidBCE",
         {"SigmoidBinaryCrossEntropyLoss", {}},
         {2, 3},
         kZeroOne,
         {},
         {(SoftPlus(-1) + SoftPlus(-2) + SoftPlus(-0.5)) / 3, (SoftPlus(0) + SoftPlus(-3) + SoftPlus(-1)) / 3}},
        {"SigmoidBCEPosWeight",
         {"SigmoidBinaryCrossEntropyLoss", {{"pos_weight", "3"}}},
         {2, 3},
         kZeroOne,
         {},
         {(3 * SoftPlus(-1) + SoftPlus(-2) + 3 * SoftPlus(-0.5)) / 3, (SoftPlus(0) + 3 * SoftPlus(-3) + SoftPlus(-1)) / 3}},
        {"Huber", {"HuberLoss", {}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {}, {(0.5f + 1.5f + 0.125f) / 3, (0 + 2.5f + 0.5f) / 3}},
        {"HuberRho",
         {"HuberLoss", {{"rho", "2"}}},
         {2, 3},
         {0, 0, 0, 0, 0, 0},
         {},
         {(0.25f + 1 + 0.0625f) / 3, (0 + 2 + 0.25f) / 3}},
        {"Hinge", {"HingeLoss", {}}, {2, 3}, {1, -1, -1, 1, 1, 1}, {}, {1.5f / 3, (1 + 0 + 2) / 3.0f}},
        {"SquaredHinge", {"SquaredHingeLoss", {}}, {2, 3}, {1, -1, -1, 1, 1, 1}, {}, {2.25f / 3, (1 + 0 + 4) / 3.0f}},
        {"Logistic",
         {"LogisticLoss", {}},
         {2, 3},
         {1, -1, -1, 1, 1, 1},
         {},
         {(SoftPlus(-1) + SoftPlus(-2) + SoftPlus(0.5)) / 3, (SoftPlus(0) + SoftPlus(-3) + SoftPlus(1)) / 3}},
        {"LogisticOfZeroAndOne",
         {"LogisticLoss", {{"label_format", "binary"}}},
         {2, 3},
         kZeroOne,
         {},
         {(SoftPlus(-1) + SoftPlus(-2) + SoftPlus(-0.5)) / 3, (SoftPlus(0) + SoftPlus(-3) + SoftPlus(-1)) / 3}},
        // The squares of the distances are 0 and 28.25.
        {"SDML", {"SDMLLoss", {}}, {2, 3}, kPrediction, {}, {SmoothedDistances(28.25f), SmoothedDistances(28.25f)}},
        {"L2WithoutWeight", {"L2Loss", {{"weight", "None"}}}, {2, 3}, {0, 0, 0, 0, 0, 0}, {}, {5.25f / 3, 10.0f / 3}},
        {"SoftmaxCEByItsShortName", {"SoftmaxCELoss", {}}, {2}, {2, 1}, {}, {kLse0 - 0.5f, kLse1 - 3}},
        {"SigmoidBCEByItsShortName",
         {"SigmoidBCELoss", {}},
         {2, 3},
         kZeroOne,
         {},
         {(SoftPlus(-1) + SoftPlus(-2) + SoftPlus(-0.5)) / 3, (SoftPlus(0) + SoftPlus(-3) + SoftPlus(-1)) / 3}},
        {"KLDivSumsOverASample", {"KLDivLoss", {}}, {2, 3}, {0.5, 0.5, 0, 1, 0, 0}, {}, {std::log(0.5f) + 0.5f, 0}},
        {"KLDivFromScores",
         {"KLDivLoss", {{"from_logits", "False"}}},
         {2, 3},
         {0.5, 0.5, 0, 1, 0, 0},
         {},
         {std::log(0.5f) + 0.5f + kLse0, kLse1}},
    }),
    [](const auto& info) { return info.param.name; });

TEST_F(LossTest, SigmoidBCETakesProbabilities) {
  const Spec spec = {"SigmoidBinaryCrossEntropyLoss", {{"from_sigmoid", "True"}, {"pos_weight", "2"}}};
  ExpectLoss(Loss(spec, Make<float>({1, 2}, {0.25, 0.5}), Make<float>({1, 2}, {1, 0})),
             {static_cast<float>(-(2 * std::log(0.25) + std::log(0.5)) / 2)});
}

TEST_F(LossTest, CTCSumsOverAlignments) {
  // Three of nine equal pairs of classes are the label 0: (0, 0), (0, blank), (blank, 0).
  const std::vector<float> equal(6, 0.0f);
  ExpectLoss(Loss({"CTCLoss", {}}, Make<float>({1, 2, 3}, equal), Make<float>({1, 2}, {0, -1})), {std::log(3.0f)});
  ExpectLoss(Loss({"CTCLoss", {{"layout", "TNC"}, {"label_layout", "TN"}, {"weight", "2"}}}, Make<float>({2, 1, 3}, equal),
                  Make<float>({2, 1}, {0, -1})),
             {2 * std::log(3.0f)});
}

// Gluon takes the nearest class. Programs give a sample that does not count the label -1 and the weight 0.
TEST_F(LossTest, SoftmaxCERefusesALabelThatIsNoClassUnlessWeightsSayWhatCounts) {
  const Tensor x = Make<float>({2, 3}, kPrediction);
  for (const float bad : {3.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    const absl::Status refused = Loss({"SoftmaxCrossEntropyLoss", {}}, x, Make<float>({2}, {2, bad})).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("(pick): label 1 is"), absl::string_view::npos) << refused;
  }
  ExpectLoss(Loss({"SoftmaxCrossEntropyLoss", {}}, x, Make<float>({2}, {2, -1}), Make<float>({2, 1}, {1, 0})), {kLse0 - 0.5f, 0});
}

TEST_F(LossTest, PoissonNLLIsOneNumber) {
  const Tensor x = Make<float>({2}, {1, 2}), counts = Make<float>({2}, {3, 0});
  const float plain = std::exp(1.0f) - 3 + std::exp(2.0f);
  ExpectLoss(Loss({"PoissonNLLLoss", {}}, x, counts), {plain / 2});
  const float stirling = 3 * std::log(3.0f) - 3 + 0.5f * std::log(static_cast<float>(2 * M_PI) * 3);
  ExpectLoss(Loss({"PoissonNLLLoss", {{"compute_full", "True"}}}, x, counts), {(plain + stirling) / 2});
  ExpectLoss(Loss({"PoissonNLLLoss", {{"from_logits", "False"}}}, x, counts), {1.5f});
}

TEST(LossesTest, EachIsDescribed) {
  for (const auto& entry : Losses().entries()) {
    EXPECT_FALSE(entry.description.empty()) << entry.name;
    for (const ArgumentDoc& doc : entry.attributes) EXPECT_FALSE(doc.description.empty()) << entry.name << doc.name;
  }
}

TEST(LossesTest, NameTheClosest) {
  const absl::Status status = Losses().Find("L2Los").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("'L2Loss'"), absl::string_view::npos);
}

}  // namespace
}  // namespace gluond
