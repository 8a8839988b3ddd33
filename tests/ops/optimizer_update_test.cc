// The optimizers' steps against MXNet's formulas, computed apart: the weight, and the states that the step writes.

#include "engine/core/elementwise.h"
#include "tests/ops/op_case.h"

namespace gluond::testing::optimizer_update {
namespace {

const Numbers kW = {{3}, {1, -2, 0.5}}, kG = {{3}, {0.5, 1, -3}};
const Numbers kM = {{3}, {0.1, -0.2, 0.3}}, kV = {{3}, {0.5, 1, 2}}, kD = {{3}, {0, 0.1, 0.2}};

// g is rescaled to (0.25, 0.5, -1.5), and the last clipped.
AttrDict With(AttrDict more = {}) {
  AttrDict attrs = {{"lr", "0.1"}, {"wd", "0.01"}, {"rescale_grad", "0.5"}, {"clip_gradient", "1"}};
  attrs.merge(more);
  return attrs;
}

const AttrDict kDirection = {{"wd", "0.01"}, {"rescale_grad", "0.5"}, {"clip_gradient", "1"}, {"t", "3"}};

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
      {"adam_update",
       {kM, kV},
       With(),
       {0.98358802, -1.9867949, 0.48797618},
       {{0.116, -0.132, 0.17}, {0.4995676, 0.9992304, 1.999}}},
      {"adamw_update",
       {kM, kV},
       With({{"eta", "0.5"}}),
       {0.98686471, -1.9834976, 0.49148809},
       {{0.115, -0.13, 0.17}, {0.4995625, 0.99925, 1.999}}},
      {"rmsprop_update", {kV}, With({{"clip_weights", "1.5"}}), {0.96240874, -1.5, 0.57161149}, {{0.47838, 0.96152, 1.95}}},
      {"rmspropalex_update",
       {kV, kM, kD},
       With(),
       {0.96194191, -1.9596679, 0.75264758},
       {{0.47838, 0.96152, 1.95}, {0.108, -0.166, 0.235}, {-0.038058091, 0.040332058, 0.25264758}}},
      {"signsgd_update", {}, With(), {0.899, -2.098, 0.5995}, {}},
      {"signum_update", {kM}, With({{"momentum", "0.9"}, {"wd_lh", "0.02"}}), {1.098, -2.096, 0.599}, {{0.064, -0.228, 0.3695}}},
      {"ftrl_update",
       {kM, kV},
       With({{"lamda1", "0.2"}}),
       {0, -0.1161227138, 0.07644154365},
       {{-0.07893218813, 2.660679775, -2.289186226}, {0.5625, 1.25, 3}}},
      {"ftml_update",
       {kV, kV, kM},
       {{"lr", "0.1"}, {"wd", "0.01"}, {"rescale_grad", "0.5"}, {"clip_grad", "1"}, {"t", "3"}},
       {0.9954159618, -1.992120409, 0.498123258},
       {{101.2207967, 143.154643, 202.4785472}, {0.4995676, 0.9992304, 1.999}, {-100.7567967, 285.1812859, -100.8592736}}},
      {"lamb_update_phase1",
       {kM, kV},
       kDirection,
       {0.04286828504, -0.04627122979, 0.02928939293},
       {{0.115, -0.13, 0.17}, {0.4995625, 0.99925, 1.999}}},
      {"mp_adam_update",
       {kM, kV, kW},
       With(),
       {0.98358802, -1.9867949, 0.48797618},
       {{0.116, -0.132, 0.17}, {0.4995676, 0.9992304, 1.999}, {0.98358802, -1.9867949, 0.48797618}}},
      {"mp_adamw_update",
       {kM, kV, kW},
       With({{"eta", "0.5"}}),
       {0.98686471, -1.9834976, 0.49148809},
       {{0.115, -0.13, 0.17}, {0.4995625, 0.99925, 1.999}, {0.98686471, -1.9834976, 0.49148809}}},
      {"mp_rmsprop_update",
       {kV, kW},
       With({{"clip_weights", "1.5"}}),
       {0.96240874, -1.5, 0.57161149},
       {{0.47838, 0.96152, 1.95}, {0.96240874, -1.5, 0.57161149}}},
      {"mp_rmspropalex_update",
       {kV, kM, kD, kW},
       With(),
       {0.96194191, -1.9596679, 0.75264758},
       {{0.47838, 0.96152, 1.95},
        {0.108, -0.166, 0.235},
        {-0.038058091, 0.040332058, 0.25264758},
        {0.96194191, -1.9596679, 0.75264758}}},
      {"mp_nag_mom_update",
       {kM, kW},
       With({{"momentum", "0.9"}}),
       {1.0316, -2.2532, 0.93205},
       {{0.064, -0.228, 0.3695}, {1.0316, -2.2532, 0.93205}}},
      {"mp_sgd_update", {kW}, With(), {0.974, -2.048, 0.5995}, {{0.974, -2.048, 0.5995}}},
      {"mp_sgd_mom_update",
       {kM, kW},
       With({{"momentum", "0.9"}}),
       {1.064, -2.228, 0.8695},
       {{0.064, -0.228, 0.3695}, {1.064, -2.228, 0.8695}}},
      {"adagrad_update", {kV}, With({{"epsilon", "0.001"}}), {0.9656962568, -2.042703482, 0.5572254068}, {{0.5625, 1.25, 3}}},
      {"mp_adagrad_update",
       {kV, kW},
       With({{"epsilon", "0.001"}}),
       {0.9656962568, -2.042703482, 0.5572254068},
       {{0.5625, 1.25, 3}, {0.9656962568, -2.042703482, 0.5572254068}}},
      {"adadelta_update",
       {kV, kV},
       {{"rho", "0.9"}, {"epsilon", "0.001"}, {"wd", "0.01"}, {"rescale_grad", "0.5"}, {"clip_gradient", "1"}},
       {0.7283130807, -2.499854191, 1.520964859},
       {{0.45625, 0.925, 1.9}, {0.4568480044, 0.927024838, 1.905260389}}},
      {"mp_adadelta_update",
       {kV, kV, kW},
       {{"rho", "0.9"}, {"epsilon", "0.001"}, {"wd", "0.01"}, {"rescale_grad", "0.5"}, {"clip_gradient", "1"}},
       {0.7283130807, -2.499854191, 1.520964859},
       {{0.45625, 0.925, 1.9}, {0.4568480044, 0.927024838, 1.905260389}, {0.7283130807, -2.499854191, 1.520964859}}},
      {"adamax_update",
       {kM, kV},
       With(),
       {0.9767767768, -1.986786787, 0.4914914915},
       {{0.116, -0.132, 0.17}, {0.4995, 0.999, 1.998}}},
      {"mp_adamax_update",
       {kM, kV, kW},
       With(),
       {0.9767767768, -1.986786787, 0.4914914915},
       {{0.116, -0.132, 0.17}, {0.4995, 0.999, 1.998}, {0.9767767768, -1.986786787, 0.4914914915}}},
      {"dcasgd_update", {kV}, With({{"lamda", "0.5"}}), {0.9724375, -2.0105, 0.6745}, {{1, -2, 0.5}}},
      {"mp_dcasgd_update",
       {kV, kW},
       With({{"lamda", "0.5"}}),
       {0.9724375, -2.0105, 0.6745},
       {{1, -2, 0.5}, {0.9724375, -2.0105, 0.6745}}},
      {"dcasgd_mom_update",
       {kM, kV},
       With({{"lamda", "0.5"}, {"momentum", "0.9"}}),
       {1.0624375, -2.1905, 0.9445},
       {{0.0624375, -0.1905, 0.4445}, {1, -2, 0.5}}},
      {"mp_dcasgd_mom_update",
       {kM, kV, kW},
       With({{"lamda", "0.5"}, {"momentum", "0.9"}}),
       {1.0624375, -2.1905, 0.9445},
       {{0.0624375, -0.1905, 0.4445}, {1, -2, 0.5}, {1.0624375, -2.1905, 0.9445}}},
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

// weight32 is the value from before the weight was set.
OP_CASES(MultiPrecision,
         {
             {"BeginsFromAWeightThatWasSet", "mp_sgd_update", {kW, kG, {{3}, {9, 9, 9}}}, With(), {{{3}, {0.974, -2.048, 0.5995}}}},
             {"OfSeveralWeights",
              "multi_mp_sgd_update",
              {kW, kG, {{3}, {9, 9, 9}}},
              {{"lrs", "(0.1,)"}, {"wds", "(0.01,)"}, {"rescale_grad", "0.5"}, {"clip_gradient", "1"}},
              {{{3}, {0.974, -2.048, 0.5995}}}},
         });

// LAMB's second phase by the norms, of one element each, and both phases with a float32 weight behind the others.
const Numbers kTwo = {{1}, {2}}, kFour = {{1}, {4}}, kNone = {{1}, {0}};

OP_CASES(Lamb, {
                   {"WithoutBiasCorrection",
                    "lamb_update_phase1",
                    {kW, kG, kM, kV},
                    {{"wd", "0.01"}, {"rescale_grad", "0.5"}, {"clip_gradient", "1"}, {"t", "3"}, {"bias_correction", "False"}},
                    {{{3}, {0.1727055288, -0.1500486473, 0.1252381311}}}},
                   OpCase{"OfTheWeight32",
                          "mp_lamb_update_phase1",
                          {{{3}, {9, 9, 9}}, kG, kM, kV, kW},
                          kDirection,
                          {{{3}, {0.04286828504, -0.04627122979, 0.02928939293}}}}
                       .Indices({4})
                       .Tolerance(300),
                   {"Trusted", "lamb_update_phase2", {kW, kG, kTwo, kFour}, {{"lr", "0.1"}}, {{{3}, {0.975, -2.05, 0.65}}}},
                   {"LowerBound",
                    "lamb_update_phase2",
                    {kW, kG, kTwo, kFour},
                    {{"lr", "0.1"}, {"lower_bound", "3"}},
                    {{{3}, {0.9625, -2.075, 0.725}}}},
                   {"UpperBound",
                    "lamb_update_phase2",
                    {kW, kG, kTwo, kFour},
                    {{"lr", "0.1"}, {"upper_bound", "1"}},
                    {{{3}, {0.9875, -2.025, 0.575}}}},
                   {"NoWeight", "lamb_update_phase2", {kW, kG, kNone, kFour}, {{"lr", "0.1"}}, {{{3}, {0.95, -2.1, 0.8}}}},
                   {"NoDirection", "lamb_update_phase2", {kW, kG, kTwo, kNone}, {{"lr", "0.1"}}, {{{3}, {0.95, -2.1, 0.8}}}},
                   {"WithWeight32",
                    "mp_lamb_update_phase2",
                    {{{3}, {9, 9, 9}}, kG, kTwo, kFour, kW},
                    {{"lr", "0.1"}},
                    {{{3}, {0.975, -2.05, 0.65}}}},
                   {"Lars",
                    "multi_lars",
                    {{{3}, {0.1, 0.2, 0.3}}, {{3}, {4, 0, 9}}, {{3}, {1, 1, 0}}, {{3}, {0.01, 0.1, 0}}},
                    {{"eta", "0.5"}, {"eps", "0.001"}, {"rescale_grad", "0.5"}},
                    {{{3}, {0.1919385797, 0.2, 0.3}}}},
               });

// The steps from above on two weights of different sizes.
AttrDict ForTwo(AttrDict more = {}) {
  AttrDict attrs = {
      {"lrs", "(0.1, 0.5)"}, {"wds", "(0.01, 0)"}, {"rescale_grad", "0.5"}, {"clip_gradient", "1"}, {"num_weights", "2"}};
  attrs.merge(more);
  return attrs;
}
const Numbers kOther = {{1, 1}, {2}}, kStepped = {{3}, {0.974, -2.048, 0.5995}}, kMoved = {{3}, {1.064, -2.228, 0.8695}};

OP_CASES(MultiSgd,
         {
             {"Step", "multi_sgd_update", {kW, kG, kOther, kOther}, ForTwo(), {kStepped, {{1, 1}, {1.5}}}},
             {"Momentum",
              "multi_sgd_mom_update",
              {kW, kG, kM, kOther, kOther, kOther},
              ForTwo({{"momentum", "0.9"}}),
              {kMoved, {{1, 1}, {3.3}}}},
             {"Weight32", "multi_mp_sgd_update", {kW, kG, kW, kOther, kOther, kOther}, ForTwo(), {kStepped, {{1, 1}, {1.5}}}},
             {"MomentumAndWeight32",
              "multi_mp_sgd_mom_update",
              {kW, kG, kM, kW, kOther, kOther, kOther, kOther},
              ForTwo({{"momentum", "0.9"}}),
              {kMoved, {{1, 1}, {3.3}}}},
         });

TEST(MultiSgd, WantsANumberForEachWeight) {
  const absl::Status status = ErrorOf("multi_sgd_update", {kW, kG}, {{"lrs", "(0.1, 0.2)"}, {"wds", "(0,)"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'lrs' and 'wds' have 2 and 1 elements; want num_weights, 1"), absl::string_view::npos) << status;
}

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
  const auto ys =
      OneByOne().Call(**TryMakeNode("sgd_update", "y", {MakeVariable("w"), MakeVariable("g")}, {{"lr", "0.5"}}), &inputs);
  ASSERT_TRUE(ys.ok()) << ys.status();
  EXPECT_EQ((*ys)[0].values(), std::vector<double>(n, 1.5));
}

// Steps that MXNet's optimizers write in operators of arithmetic have the bits of those calls, which clients make.

NodeEntry Call(const char* op, std::vector<NodeEntry> inputs, AttrDict attrs = {}) {
  return MakeNode(op, op, std::move(inputs), std::move(attrs));
}

// The weight and the states before the step, and after it. `g` is the gradient, rescaled and clipped.
struct Unfolded {
  NodeEntry w, g;
  std::vector<NodeEntry> s;
};

constexpr double kRate = 0.013, kDecay = 0.07, kRescale = 0.3, kClip = 0.6;

NodeEntry Clipped(const NodeEntry& g) { return Call("clip", {g}, {{"a_min", "-0.6"}, {"a_max", "0.6"}}); }

struct Written {
  const char* op;
  size_t states;
  AttrDict attrs;
  std::function<void(Unfolded&)> write;
};

const std::vector<Written>& WrittenSteps() {
  static const std::vector<Written>& steps = *new std::vector<Written>{
      {"adagrad_update",
       1,
       {{"epsilon", "0.003"}, {"lr", "0.013"}},
       [](Unfolded& u) {
         const NodeEntry g = Clipped(kRescale * u.g);
         u.s[0] = u.s[0] + g * g;
         u.w = u.w - kRate * (g / Call("sqrt", {u.s[0] + 0.003}) + kDecay * u.w);
       }},
      {"adadelta_update",
       2,
       {{"rho", "0.87"}, {"epsilon", "0.003"}},
       [](Unfolded& u) {
         const NodeEntry g = Clipped(kRescale * u.g);
         u.s[0] = 0.87 * u.s[0] + (1 - 0.87) * g * g;
         const NodeEntry step = Call("sqrt", {u.s[1] + 0.003}) / Call("sqrt", {u.s[0] + 0.003}) * g;
         u.s[1] = 0.87 * u.s[1] + (1 - 0.87) * step * step;
         u.w = u.w - (step + kDecay * u.w);
       }},
      {"adamax_update",
       2,
       {{"lr", "0.013"}},
       [](Unfolded& u) {
         const NodeEntry g = Clipped(kRescale * u.g + kDecay * u.w);
         u.s[0] = 0.9 * u.s[0] + (1 - 0.9) * g;
         u.s[1] = Call("_maximum", {0.999 * u.s[1], Call("abs", {g})});
         u.w = u.w - kRate * u.s[0] / Call("_maximum_scalar", {u.s[1]}, {{"scalar", "1e-37"}});
       }},
      {"dcasgd_update",
       1,
       {{"lr", "0.013"}, {"lamda", "0.4"}},
       [](Unfolded& u) {
         const NodeEntry g = Clipped(kRescale * u.g), w = u.w;
         u.w = w + -kRate * (g + kDecay * w + 0.4 * g * g * (w - u.s[0]));
         u.s[0] = w;
       }},
      {"dcasgd_mom_update",
       2,
       {{"lr", "0.013"}, {"lamda", "0.4"}, {"momentum", "0.8"}},
       [](Unfolded& u) {
         const NodeEntry g = Clipped(kRescale * u.g), w = u.w;
         u.s[0] = 0.8 * u.s[0] + -kRate * (g + kDecay * w + 0.4 * g * g * (w - u.s[1]));
         u.w = w + u.s[0];
         u.s[1] = w;
       }},
  };
  return steps;
}

TEST(Optimizers, HaveTheBitsOfOperatorsOfArithmetic) {
  for (const Written& step : WrittenSteps()) {
    for (const DType type : {DType::kFloat32, DType::kFloat64}) {
      const Shape shape = {1013};
      Unfolded u{MakeVariable("w"), MakeVariable("g"), {}};
      std::vector<HostTensor> inputs = {HostTensor::Of(Shuffled(shape, -2, 3), type), HostTensor::Of(Shuffled(shape, -5, 4), type)};
      std::map<std::string, HostTensor> values = {{"w", inputs[0]}, {"g", inputs[1]}};
      std::vector<NodeEntry> variables = {u.w, u.g};
      for (size_t i = 0; i < step.states; ++i) {
        const std::string name = absl::StrCat("s", i);
        u.s.push_back(MakeVariable(name));
        variables.push_back(u.s.back());
        inputs.push_back(HostTensor::Of(Shuffled(shape, 0.01, 2 + static_cast<double>(i)), type));
        values[name] = inputs.back();
      }
      AttrDict attrs = {{"wd", "0.07"}, {"rescale_grad", "0.3"}, {"clip_gradient", "0.6"}};
      attrs.insert(step.attrs.begin(), step.attrs.end());
      const auto node = *TryMakeNode(step.op, "y", variables, attrs);
      const auto y = OneByOne().Call(*node, &inputs);
      ASSERT_TRUE(y.ok()) << y.status();
      step.write(u);
      std::vector<NodeEntry> outputs = {u.w};
      outputs.insert(outputs.end(), u.s.begin(), u.s.end());
      const auto want = OneByOne().Evaluate(outputs, values);
      ASSERT_TRUE(want.ok()) << want.status();
      EXPECT_TRUE((*y)[0].bytes == (*want)[0].bytes) << step.op << " " << Name(type);
      for (size_t i = 0; i < step.states; ++i) {
        EXPECT_TRUE(inputs[2 + i].bytes == (*want)[1 + i].bytes) << step.op << " " << Name(type) << ", state " << i;
      }
    }
  }
}

}  // namespace
}  // namespace gluond::testing::optimizer_update
