// Each optimizer against its formula in double precision, written out here; and what holds for all of them: steps that
// the norm holds back, checkpoints, multipliers.

#include "engine/train/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

using testing::HasSubstr;

// The weight after step t, from 1, given the gradient (already divided by the batch size) and room for states.
using Formula = std::function<double(int t, double w, double g, double* s)>;

struct OptimizerCase {
  const char* name;
  Spec optimizer;
  Formula formula;
  Spec lr_schedule = {};
};
class OptimizerTest : public TrainerTest, public testing::WithParamInterface<OptimizerCase> {};

TEST_P(OptimizerTest, IsItsFormula) {
  // y = w x without a loss: the gradient is the sum of x.
  auto model = MakeModel({"Dense", "", {{"units", "1"}, {"use_bias", "0"}}}, {{"data", {-1, 1}}});
  ASSERT_OK(Set(*model, {{"weight", Make<float>({1, 1}, {0.5})}}));
  auto trainer = MakeTrainer(model, {.loss = {}, .optimizer = GetParam().optimizer, .lr_schedule = GetParam().lr_schedule});
  double w = 0.5, s[3] = {};
  const float gradients[] = {0.8f, -3.0f, 1.5f, 0.1f};
  for (int t = 1; t <= 4; ++t) {
    const float g = gradients[t - 1];
    ASSERT_OK(TrainStep(*trainer, {{"data", Make<float>({2, 1}, {3 * g, -g})}}).status());
    w = GetParam().formula(t, w, g, s);
    EXPECT_NEAR((*Get(*model))[0].tensor.data<float>()[0], w, 2e-6) << "step " << t;
  }
}

double Clip(double g) { return std::clamp(g, -1.0, 1.0); }
double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double Correction(int t) { return std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)); }

INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerTest,
                         testing::ValuesIn<OptimizerCase>({
                             {"Sgd",
                              {"sgd", {{"learning_rate", "0.1"}}},
                              [](int, double w, double g, double*) { return w - 0.1 * g; }},
                             {"SgdDecayStandsOutsideTheClip",
                              {"sgd", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}}},
                              [](int, double w, double g, double*) { return (1 - 0.1 * 0.2) * w - 0.1 * Clip(g); }},
                             {"SgdMomentum",
                              {"ccSGD", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"momentum", "0.9"}}},
                              [](int, double w, double g, double* s) { return w + (s[0] = 0.9 * s[0] - 0.1 * 0.2 * w - 0.1 * g); }},
                             {"Nag",
                              {"nag", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"momentum", "0.9"}}},
                              [](int, double w, double g, double* s) {
                                const double before = 0.9 * s[0];
                                s[0] = before - 0.1 * (g + 0.2 * w);
                                return w + 1.9 * s[0] - before;
                              }},
                             {"SignumDecaysTwice",
                              {"signum", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"wd_lh", "0.3"}, {"clip_gradient", "1"}}},
                              [](int, double w, double g, double* s) {
                                s[0] = 0.9 * s[0] - 0.1 * (0.2 * w + Clip(g));
                                return (1 - 0.1 * 0.3) * w + 0.1 * Sign(s[0]);
                              }},
                             {"SignumWithoutMomentum",
                              {"signum", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"momentum", "0"}}},
                              [](int, double w, double g, double*) { return (1 - 0.1 * 0.2) * w - 0.1 * Sign(g); }},
                             {"Dcasgd",
                              {"dcasgd", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}, {"lamda", "0.5"}}},
                              [](int t, double w, double g, double* s) {
                                const double previous = t == 1 ? w : s[0];
                                g = Clip(g), s[0] = w;
                                return w - 0.1 * (g + 0.2 * w + 0.5 * g * g * (w - previous));
                              }},
                             {"DcasgdMomentum",
                              {"dcasgd", {{"learning_rate", "0.1"}, {"momentum", "0.9"}}},
                              [](int t, double w, double g, double* s) {
                                const double previous = t == 1 ? w : s[0];
                                s[0] = w, s[1] = 0.9 * s[1] - 0.1 * (g + 0.04 * g * g * (w - previous));
                                return w + s[1];
                              }},
                             {"Lars",
                              {"lars", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"eta", "0.5"}, {"eps", "0.1"}}},
                              [](int, double w, double g, double*) {
                                const double ratio = 0.5 * std::abs(w) / (std::abs(g) + 0.2 * std::abs(w) + 0.1);
                                return w - 0.1 * (g + 0.2 * w) * ratio;
                              }},
                             {"LarsMomentumFollowsTheRate",
                              {"lars", {{"learning_rate", "0.1"}, {"momentum", "0.9"}, {"eta", "0.5"}}},
                              [](int t, double w, double g, double* s) {
                                s[0] = 0.9 * (t == 1 ? 1 : 0.25) * s[0] -
                                       0.1 * std::pow(0.25, t - 1) * g * 0.5 * std::abs(w) / std::abs(g);
                                return w + s[0];
                              },
                              {"factor", {{"step", "1"}, {"factor", "0.25"}}}},
                             {"LarsMomentumAsItIs",
                              {"lars",
                               {{"learning_rate", "0.1"}, {"momentum", "0.9"}, {"eta", "0.5"}, {"momentum_correction", "False"}}},
                              [](int t, double w, double g, double* s) {
                                s[0] = 0.9 * s[0] - 0.1 * std::pow(0.25, t - 1) * g * 0.5 * std::abs(w) / std::abs(g);
                                return w + s[0];
                              },
                              {"factor", {{"step", "1"}, {"factor", "0.25"}}}},
                             {"AdamDecayStandsInsideTheClip",
                              {"adam", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}}},
                              [](int t, double w, double g, double* s) {
                                g = Clip(g + 0.2 * w);
                                s[0] = 0.9 * s[0] + 0.1 * g, s[1] = 0.999 * s[1] + 0.001 * g * g;
                                return w - 0.1 * Correction(t) * s[0] / (std::sqrt(s[1]) + 1e-8);
                              }},
                             {"AdamWDecaysTheWeightItself",
                              {"adamw", {{"learning_rate", "0.1"}, {"wd", "0.2"}}},
                              [](int t, double w, double g, double* s) {
                                s[0] = 0.9 * s[0] + 0.1 * g, s[1] = 0.999 * s[1] + 0.001 * g * g;
                                return w - 0.1 * (Correction(t) * s[0] / (std::sqrt(s[1]) + 1e-8) + 0.2 * w);
                              }},
                             {"AdamaxDecayStandsInsideTheClip",
                              {"adamax", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}}},
                              [](int t, double w, double g, double* s) {
                                g = Clip(g + 0.2 * w);
                                s[0] = 0.9 * s[0] + 0.1 * g, s[1] = std::max(0.999 * s[1], std::abs(g));
                                return w - 0.1 / (1 - std::pow(0.9, t)) * s[0] / s[1];
                              }},
                             {"Nadam",
                              {"nadam",
                               {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}, {"schedule_decay", "0.1"}}},
                              [](int t, double w, double g, double* s) {
                                const auto momentum = [](int n) { return 0.9 * (1 - 0.5 * std::pow(0.96, n * 0.1)); };
                                g = Clip(g + 0.2 * w);
                                s[0] = 0.9 * s[0] + 0.1 * g, s[1] = 0.999 * s[1] + 0.001 * g * g;
                                s[2] = (t == 1 ? 1 : s[2]) * momentum(t);
                                const double mean =
                                    (1 - momentum(t)) / (1 - s[2]) * g + momentum(t + 1) / (1 - s[2] * momentum(t + 1)) * s[0];
                                return w - 0.1 * mean / (std::sqrt(s[1] / (1 - std::pow(0.999, t))) + 1e-8);
                              }},
                             {"Ftml",
                              {"ftml", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}}},
                              [](int t, double w, double g, double* s) {
                                g = Clip(g + 0.2 * w);
                                s[1] = 0.999 * s[1] + 0.001 * g * g;
                                const double d = (1 - std::pow(0.6, t)) / 0.1 * (std::sqrt(s[1] / (1 - std::pow(0.999, t))) + 1e-8);
                                s[2] = 0.6 * s[2] + 0.4 * g - (d - 0.6 * s[0]) * w;
                                s[0] = d;
                                return -s[2] / d;
                              }},
                             {"AdaGradDecayStandsOutsideTheClip",
                              {"adagrad", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}}},
                              [](int, double w, double g, double* s) {
                                g = Clip(g), s[0] += g * g;
                                return w - 0.1 * (g / std::sqrt(s[0] + 1e-7) + 0.2 * w);
                              }},
                             {"GroupAdaGrad",
                              {"groupadagrad", {{"learning_rate", "0.1"}, {"clip_gradient", "1"}}},
                              [](int, double w, double g, double* s) {
                                g = Clip(g), s[0] += g * g;
                                return w - 0.1 * g / std::sqrt(s[0] + 1e-5);
                              }},
                             {"AdaDeltaHasNoRate",
                              {"adadelta", {{"wd", "0.2"}, {"clip_gradient", "1"}}},
                              [](int, double w, double g, double* s) {
                                g = Clip(g), s[0] = 0.9 * s[0] + 0.1 * g * g;
                                const double d = std::sqrt(s[1] + 1e-5) / std::sqrt(s[0] + 1e-5) * g;
                                s[1] = 0.9 * s[1] + 0.1 * d * d;
                                return w - (d + 0.2 * w);
                              }},
                             {"RmsProp",
                              {"rmsprop", {{"learning_rate", "0.1"}, {"wd", "0.2"}}},
                              [](int, double w, double g, double* s) {
                                g += 0.2 * w;
                                s[0] = 0.1 * g * g + 0.9 * s[0];
                                return w - 0.1 * g / std::sqrt(s[0] + 1e-8);
                              }},
                             {"RmsPropCentered",
                              {"rmsprop", {{"learning_rate", "0.1"}, {"centered", "True"}, {"clip_weights", "0.45"}}},
                              [](int, double w, double g, double* s) {
                                s[0] = 0.1 * g * g + 0.9 * s[0], s[1] = 0.1 * g + 0.9 * s[1];
                                s[2] = 0.9 * s[2] - 0.1 * g / std::sqrt(s[0] - s[1] * s[1] + 1e-8);
                                return std::clamp(w + s[2], -0.45, 0.45);
                              }},
                             {"Ftrl",
                              {"ftrl", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"clip_gradient", "1"}, {"lamda1", "0.1"}}},
                              [](int, double w, double g, double* s) {
                                g = Clip(g);
                                const double n = s[1] + g * g;
                                s[0] += g - (std::sqrt(n) - std::sqrt(s[1])) * w / 0.1, s[1] = n;
                                if (std::abs(s[0]) <= 0.1) return 0.0;
                                return (Sign(s[0]) * 0.1 - s[0]) / ((1 + std::sqrt(n)) / 0.1 + 0.2);
                              }},
                         }),
                         [](const auto& info) { return info.param.name; });

// On y = w1 x1 + w2 x2, where norms are of more than one element.
class NormOptimizerTest : public TrainerTest {
 protected:
  using Pair = std::array<double, 2>;
  static double Norm(const Pair& v) { return std::hypot(v[0], v[1]); }

  // `next` changes the weight from the gradient.
  void Compare(const Spec& optimizer, const std::function<void(int t, Pair& w, const Pair& g)>& next) {
    auto model = MakeModel({"Dense", "", {{"units", "1"}, {"use_bias", "0"}}}, {{"data", {-1, 2}}});
    ASSERT_OK(Set(*model, {{"weight", Make<float>({1, 2}, {0.5, -2})}}));
    auto trainer = MakeTrainer(model, {.loss = {}, .optimizer = optimizer});
    Pair w = {0.5, -2};
    const float gradients[][2] = {{0.8f, 1}, {-3, 0.5f}, {1.5f, 2}};
    for (int t = 1; t <= 3; ++t) {
      const float* const g = gradients[t - 1];
      ASSERT_OK(TrainStep(*trainer, {{"data", Make<float>({1, 2}, {g[0], g[1]})}}).status());
      next(t, w, {g[0], g[1]});
      const std::vector<float> found = Values((*Get(*model))[0].tensor);
      for (int i : {0, 1}) EXPECT_NEAR(found[i], w[i], 2e-6) << "step " << t << ", element " << i;
    }
  }
};

TEST_F(NormOptimizerTest, Lars) {
  Compare({"lars", {{"learning_rate", "0.1"}, {"wd", "0.2"}, {"eta", "0.5"}}}, [](int, Pair& w, const Pair& g) {
    const double ratio = 0.5 * Norm(w) / (Norm(g) + 0.2 * Norm(w));
    for (int i : {0, 1}) w[i] -= 0.1 * (g[i] + 0.2 * w[i]) * ratio;
  });
}

TEST_F(NormOptimizerTest, Lamb) {
  for (const bool corrects : {true, false}) {
    Pair mean = {}, var = {};
    Compare({"lamb",
             {{"learning_rate", "0.1"},
              {"wd", "0.2"},
              {"clip_gradient", "1"},
              {"upper_bound", "1.5"},
              {"bias_correction", corrects ? "True" : "False"}}},
            [&](int t, Pair& w, const Pair& g) {
              Pair d;
              for (int i : {0, 1}) {
                mean[i] = 0.9 * mean[i] + 0.1 * Clip(g[i]), var[i] = 0.999 * var[i] + 0.001 * Clip(g[i]) * Clip(g[i]);
                const double m = corrects ? mean[i] / (1 - std::pow(0.9, t)) : mean[i];
                const double v = corrects ? var[i] / (1 - std::pow(0.999, t)) : var[i];
                d[i] = m / (std::sqrt(v) + 1e-6) + 0.2 * w[i];
              }
              const double ratio = std::min(Norm(w), 1.5) / Norm(d);
              for (int i : {0, 1}) w[i] -= 0.1 * ratio * d[i];
            });
  }
}

TEST_F(NormOptimizerTest, GroupAdaGradHasOneHistoryForARow) {
  double history = 0;
  Compare({"groupadagrad", {{"learning_rate", "0.1"}}}, [&](int, Pair& w, const Pair& g) {
    history += (g[0] * g[0] + g[1] * g[1]) / 2;
    for (int i : {0, 1}) w[i] -= 0.1 * g[i] / std::sqrt(history + 1e-5);
  });
}

class EveryOptimizerTest : public TrainerTest, public testing::WithParamInterface<Spec> {
 protected:
  std::shared_ptr<Trainer> Begin(TrainerOptions options = {}) {
    const auto model = MakeModel({"Dense", "", {{"units", "3"}, {"use_bias", "0"}}}, {{"data", {-1, 4}}});
    EXPECT_OK(Initialize(*model, {{"Xavier", {}}}));
    options.loss = {"L2Loss", {}};
    options.optimizer = GetParam();
    return MakeTrainer(model, std::move(options));
  }
  void Train(Trainer& trainer, int steps) {
    const Tensor data = MakeNoise({6, 4}, 3), label = MakeNoise({6, 3}, 4);
    for (int i = 0; i < steps; ++i) ASSERT_OK(TrainStep(trainer, {{"data", data}, {"label", label}}).status());
  }
  static std::string BytesOf(Trainer& trainer) {
    const States states = SnapshotOf(trainer);
    std::string bytes = Bytes(states.first.parameters[0].tensor);
    for (const NamedTensor& each : states.second.states) bytes += Bytes(each.tensor);
    return bytes;
  }
};

TEST_P(EveryOptimizerTest, GoesOnFromACheckpoint) {
  const auto straight = Begin(), begun = Begin(), resumed = Begin();
  Train(*straight, 5);
  Train(*begun, 3);
  ASSERT_OK(Restore(*resumed, *resumed->model(), SnapshotOf(*begun)));
  Train(*resumed, 2);
  EXPECT_EQ(BytesOf(*resumed), BytesOf(*straight));
}

TEST_P(EveryOptimizerTest, ChangesNothingWhileTheNormIsComputed) {
  const auto one = Begin(), other = Begin({.skip_nonfinite = true});
  Train(*one, 3);
  Train(*other, 3);
  EXPECT_EQ(BytesOf(*other), BytesOf(*one));
  const std::string before = BytesOf(*other);
  const Tensor data = Make<float>({1, 4}, {1, 2, 3, INFINITY}), label = MakeNoise({1, 3}, 4);
  const auto report = TrainStep(*other, {{"data", data}, {"label", label}});
  ASSERT_OK(report.status());
  EXPECT_EQ(report->skipped, 1);
  EXPECT_EQ(BytesOf(*other), before);
}

TEST_P(EveryOptimizerTest, FollowsTheMultipliers) {
  const auto one = Begin(), other = Begin();
  EXPECT_OK(Await<absl::Status>(
      [&](auto done) { other->model()->Configure("weight", {.grad_req = {}, .lr_mult = 0.5, .wd_mult = 0}, done); }));
  Train(*one, 2);
  Train(*other, 2);
  EXPECT_EQ(BytesOf(*one) == BytesOf(*other), GetParam().type == "adadelta");
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EveryOptimizerTest, testing::ValuesIn([] {
                           std::vector<Spec> specs;
                           for (const auto& entry : Optimizers().entries()) {
                             AttrDict attrs;
                             for (const ArgumentDoc& doc : entry.attributes) {
                               if (doc.name == "momentum") attrs["momentum"] = "0.9";
                             }
                             specs.push_back({entry.name, attrs});
                           }
                           return specs;
                         }()),
                         [](const auto& info) { return info.param.type; });

class SgldTest : public TrainerTest {};

TEST_F(SgldTest, StepsHaveNoiseOfVarianceLr) {
  constexpr int kSize = 4000;
  auto model = MakeModel({"Dense", "", {{"units", absl::StrCat(kSize)}, {"use_bias", "0"}}}, {{"data", {-1, 1}}});
  ASSERT_OK(Initialize(*model, {{"Zero", {}}}));
  auto trainer = MakeTrainer(model, {.loss = {}, .optimizer = {"sgld", {{"learning_rate", "0.04"}}}});
  std::vector<float> before(kSize);
  for (int step = 0; step < 2; ++step) {
    ASSERT_OK(TrainStep(*trainer, {{"data", Make<float>({1, 1}, {3})}}).status());
    const std::vector<float> after = Values((*Get(*model))[0].tensor);
    double mean = 0, square = 0, product = 0;
    for (int i = 0; i < kSize; ++i) {
      const double noise = after[i] - before[i] + 0.02 * 3;
      mean += noise / kSize, square += noise * noise / kSize, product += noise * before[i] / kSize;
    }
    EXPECT_NEAR(mean, 0, 4 * 0.2 / std::sqrt(kSize));
    EXPECT_NEAR(square, 0.04, 0.04 * 4 * std::sqrt(2.0 / kSize));
    EXPECT_NEAR(product, 0, 4 * 0.04 / std::sqrt(kSize)) << "each step has noise of its own";
    before = after;
  }
}

class GroupAdaGradTest : public TrainerTest {};

TEST_F(GroupAdaGradTest, WantsMatricesAndNoDecay) {
  auto model = MakeModel({"Dense", "", {{"units", "1"}}}, {{"data", {-1, 1}}});
  ASSERT_OK(Initialize(*model));
  const auto decays = Trainer::Create(model, {.loss = {}, .optimizer = {"groupadagrad", {{"wd", "0.1"}}}});
  EXPECT_THAT(std::string(decays.status().message()), HasSubstr("wd is 0.1; want 0"));
  auto trainer = MakeTrainer(model, {.loss = {}, .optimizer = {"groupadagrad", {}}});
  const absl::Status status = TrainStep(*trainer, {{"data", Make<float>({1, 1}, {3})}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("parameter 'bias' has the shape [1]"));
}

}  // namespace
}  // namespace gluond
