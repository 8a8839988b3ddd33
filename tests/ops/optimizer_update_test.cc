// The optimizers' steps against MXNet's formulas, computed apart: the weight, and the states that the step writes.

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing {
namespace {

const Numbers kW = {{3}, {1, -2, 0.5}}, kG = {{3}, {0.5, 1, -3}};
const Numbers kM = {{3}, {0.1, -0.2, 0.3}}, kV = {{3}, {0.5, 1, 2}}, kD = {{3}, {0, 0.1, 0.2}};

// g is rescaled to (0.25, 0.5, -1.5), and the last clipped.
AttrDict With(AttrDict more = {}) {
  AttrDict attrs = {{"lr", "0.1"}, {"wd", "0.01"}, {"rescale_grad", "0.5"}, {"clip_gradient", "1"}};
  attrs.merge(more);
  return attrs;
}

struct Step {
  const char* op;
  std::vector<Numbers> states;
  AttrDict attrs;
  std::vector<double> weight;
  std::vector<std::vector<double>> new_states;
};

const std::vector<Step>& Steps() {
  static const std::vector<Step>& steps = *new std::vector<Step>{
      {"sgd_update", {}, With(), {0.974, -2.048, 0.5995}, {}},
      {"sgd_mom_update", {kM}, With({{"momentum", "0.9"}}), {1.064, -2.228, 0.8695}, {{0.064, -0.228, 0.3695}}},
      {"nag_mom_update", {kM}, With({{"momentum", "0.9"}}), {1.0316, -2.2532, 0.93205}, {{0.064, -0.228, 0.3695}}},
      {"adam_update", {kM, kV}, With(), {0.98358802, -1.9867949, 0.48797618},
       {{0.116, -0.132, 0.17}, {0.4995676, 0.9992304, 1.999}}},
      {"adamw_update", {kM, kV}, With({{"eta", "0.5"}}), {0.98686471, -1.9834976, 0.49148809},
       {{0.115, -0.13, 0.17}, {0.4995625, 0.99925, 1.999}}},
      {"rmsprop_update", {kV}, With({{"clip_weights", "1.5"}}), {0.96240874, -1.5, 0.57161149}, {{0.47838, 0.96152, 1.95}}},
      {"rmspropalex_update", {kV, kM, kD}, With(), {0.96194191, -1.9596679, 0.75264758},
       {{0.47838, 0.96152, 1.95}, {0.108, -0.166, 0.235}, {-0.038058091, 0.040332058, 0.25264758}}},
      {"mp_sgd_update", {kW}, With(), {0.974, -2.048, 0.5995}, {{0.974, -2.048, 0.5995}}},
      {"mp_sgd_mom_update", {kM, kW}, With({{"momentum", "0.9"}}), {1.064, -2.228, 0.8695},
       {{0.064, -0.228, 0.3695}, {1.064, -2.228, 0.8695}}},
  };
  return steps;
}

std::vector<OpCase> Rows() {
  std::vector<OpCase> rows;
  for (const Step& step : Steps()) {
    std::vector<Numbers> inputs = {kW, kG};
    inputs.insert(inputs.end(), step.states.begin(), step.states.end());
    rows.push_back(OpCase{step.op, step.op, inputs, step.attrs, {{{3}, step.weight}}});
  }
  return rows;
}

OP_CASES(Optimizers, (Rows()));

TEST(Optimizers, StepsWriteTheirStates) {
  for (const Step& step : Steps()) {
    std::vector<NodeEntry> xs = {MakeVariable("w"), MakeVariable("g")};
    std::vector<HostTensor> inputs = {HostTensor::Of(kW, DType::kFloat64), HostTensor::Of(kG, DType::kFloat64)};
    for (const Numbers& state : step.states) {
      xs.push_back(MakeVariable("s"));
      inputs.push_back(HostTensor::Of(state, DType::kFloat64));
    }
    ASSERT_TRUE(OneByOne().Call(**TryMakeNode(step.op, "y", xs, step.attrs), &inputs).ok()) << step.op;
    for (size_t k = 0; k < step.states.size(); ++k) {
      for (int i = 0; i < 3; ++i) EXPECT_NEAR(inputs[2 + k].values()[i], step.new_states[k][i], 1e-7) << step.op << " state " << k;
    }
  }
}

// Long tensors take every path of the vectorized loop.
TEST(Optimizers, EveryElementIsUpdated) {
  const int64_t n = 1237;
  std::vector<HostTensor> inputs = {HostTensor::Of({{n}, std::vector<double>(n, 2)}, DType::kFloat32),
                                    HostTensor::Of({{n}, std::vector<double>(n, 1)}, DType::kFloat32)};
  const auto ys = OneByOne().Call(**TryMakeNode("sgd_update", "y", {MakeVariable("w"), MakeVariable("g")}, {{"lr", "0.5"}}), &inputs);
  ASSERT_TRUE(ys.ok()) << ys.status();
  EXPECT_EQ((*ys)[0].values(), std::vector<double>(n, 1.5));
}

// A learning rate that changes each step does not go through text.
TEST(Optimizers, NumbersAreSetWithoutParsing) {
  NodePtr node = *TryMakeNode("sgd_update", "y", {MakeVariable("w"), MakeVariable("g")}, {{"lr", "0.5"}});
  ASSERT_TRUE(SetParam(&node->attrs, "lr", 0.25).ok());
  std::vector<HostTensor> inputs = {HostTensor::Of({{1}, {2}}, DType::kFloat32), HostTensor::Of({{1}, {1}}, DType::kFloat32)};
  EXPECT_EQ((*OneByOne().Call(*node, &inputs))[0].values()[0], 1.75);
}

}  // namespace
}  // namespace gluond::testing
