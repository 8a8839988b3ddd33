// Three steps of each optimizer on one weight, against its formula written out.

#include "engine/train/optimizer.h"

#include <cmath>
#include <functional>

#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

// The weight after step t, from 1, given the gradient (already divided by the batch size) and room for states.
using Formula = std::function<double(int t, double w, double g, double* s)>;

struct OptimizerCase {
  const char* name;
  Spec optimizer;
  Formula formula;
};
class OptimizerTest : public TrainerTest, public testing::WithParamInterface<OptimizerCase> {};

TEST_P(OptimizerTest, IsItsFormula) {
  // y = w x without a loss: the gradient is the sum of x.
  auto model = MakeModel({"Dense", "", {{"units", "1"}, {"use_bias", "0"}}}, {{"data", {-1, 1}}});
  ASSERT_OK(Set(*model, {{"weight", Make<float>({1, 1}, {0.5})}}));
  auto trainer = MakeTrainer(model, {.loss = {}, .optimizer = GetParam().optimizer});
  double w = 0.5, s[3] = {};
  const float gradients[] = {0.8f, -3.0f, 1.5f};
  for (int t = 1; t <= 3; ++t) {
    const float g = gradients[t - 1];
    ASSERT_OK(TrainStep(*trainer, {{"data", Make<float>({2, 1}, {3 * g, -g})}}).status());
    w = GetParam().formula(t, w, g, s);
    EXPECT_NEAR((*Get(*model))[0].tensor.data<float>()[0], w, 2e-6) << "step " << t;
  }
}

double Clip(double g) { return std::clamp(g, -1.0, 1.0); }
double Correction(int t) { return std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)); }

INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerTest, testing::ValuesIn<OptimizerCase>({
    {"Sgd", {"sgd", {{"learning_rate", "0.1"}}}, [](int, double w, double g, double*) { return w - 0.1 * g; }},
    {"SgdDecayStandsOutsideTheClip", {"sgd", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}}},
     [](int, double w, double g, double*) { return (1 - 0.1 * 0.2) * w - 0.1 * Clip(g); }},
    {"SgdMomentum", {"sgd", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"momentum", "0.9"}}},
     [](int, double w, double g, double* s) { return w + (s[0] = 0.9 * s[0] - 0.1 * 0.2 * w - 0.1 * g); }},
    {"Nag", {"nag", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"momentum", "0.9"}}},
     [](int, double w, double g, double* s) {
       const double before = 0.9 * s[0];
       s[0] = before - 0.1 * (g + 0.2 * w);
       return w + 1.9 * s[0] - before;
     }},
    {"AdamDecayStandsInsideTheClip", {"adam", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}}},
     [](int t, double w, double g, double* s) {
       g = Clip(g + 0.2 * w);
       s[0] = 0.9 * s[0] + 0.1 * g, s[1] = 0.999 * s[1] + 0.001 * g * g;
       return w - 0.1 * Correction(t) * s[0] / (std::sqrt(s[1]) + 1e-8);
     }},
    {"AdamWDecaysTheWeightItself", {"adamw", {{"learning_rate", "0.1"}, {"wd", "0.2"}}},
     [](int t, double w, double g, double* s) {
       s[0] = 0.9 * s[0] + 0.1 * g, s[1] = 0.999 * s[1] + 0.001 * g * g;
       return w - 0.1 * (Correction(t) * s[0] / (std::sqrt(s[1]) + 1e-8) + 0.2 * w);
     }},
    {"RmsProp", {"rmsprop", {{"learning_rate", "0.1"}, {"wd", "0.2"}}},
     [](int, double w, double g, double* s) {
       g += 0.2 * w;
       s[0] = 0.1 * g * g + 0.9 * s[0];
       return w - 0.1 * g / std::sqrt(s[0] + 1e-8);
     }},
    {"RmsPropCentered", {"rmsprop", {{"learning_rate", "0.1"}, {"centered", "True"}}},
     [](int, double w, double g, double* s) {
       s[0] = 0.1 * g * g + 0.9 * s[0], s[1] = 0.1 * g + 0.9 * s[1];
       s[2] = 0.9 * s[2] - 0.1 * g / std::sqrt(s[0] - s[1] * s[1] + 1e-8);
       return w + s[2];
     }},
}), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gluond
